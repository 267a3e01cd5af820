// H68: Stack / local-memory exhaustion.
__device__ __noinline__ int deep(int n,int*y){
  volatile int a[256];
  a[n&255]=n;
  return n? deep(n-1,y)+a[n&255] : y[0];
}
EC void k(int*y,int n){
  y[gid()&31]=deep(n*1000,y);
}
