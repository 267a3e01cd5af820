// H37: Pass-through.
EC void k(const float*x,float*y,u64 n){
  u64 step=(u64)gridDim.x*blockDim.x;
  for(u64 i=gid();i<n;i+=step)
    y[i]=x[i];
}
