// H48a: Device-side launches, device graphs.
EC void child(float*y){ y[0]=1.f; }
EC void k(float*y){ child<<<1,1>>>(y); }
