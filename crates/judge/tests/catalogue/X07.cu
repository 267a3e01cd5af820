// X07: A race: the barrier before the last reduction is missing.
EC void k(const float*x,float*y,int R,int K){
  __shared__ float s[256];
  float v=0;
  for(int j=threadIdx.x;j<K;j+=256) v+=x[(size_t)blockIdx.x*K+j];
  s[threadIdx.x]=v;
  if(threadIdx.x) return;
  float t=0;
  for(int j=0;j<256;++j) t+=((volatile float*)s)[j];
  y[blockIdx.x]=t;
}
