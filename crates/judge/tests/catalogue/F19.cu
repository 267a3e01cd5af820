// F19: Fast algorithms with larger constants (Winograd, FFT, Strassen), declared.
// One level of Strassen: seven products of half the size instead of eight.
__constant__ signed char left[7][4]={{1,0,0,1},{0,0,1,1},{1,0,0,0},{0,0,0,1},{1,1,0,0},{-1,0,1,0},{0,1,0,-1}};
__constant__ signed char right[7][4]={{1,0,0,1},{1,0,0,0},{0,1,0,-1},{-1,0,1,0},{0,0,0,1},{1,1,0,0},{0,0,1,1}};
__device__ __forceinline__ float mixed(const float*X,const signed char*s,int r,int c,int H,int W){
  const float*p=X+(size_t)r*W+c;
  float v=0.f;
  if(s[0]) v+=s[0]*p[0];
  if(s[1]) v+=s[1]*p[W/2];
  if(s[2]) v+=s[2]*p[(size_t)(H/2)*W];
  if(s[3]) v+=s[3]*p[(size_t)(H/2)*W+W/2];
  return v;
}
EC void products(const float*A,const float*B,float*P,int M,int N,int K){
  int p=blockIdx.y, m=M/2, n=N/2;
  u32 i=gid();
  if(i>=(u32)(m*n)) return;
  float s=0.f;
  for(int k=0;k<K/2;++k) s=fmaf(mixed(A,left[p],i/n,k,M,K),mixed(B,right[p],k,i%n,K,N),s);
  P[(size_t)p*m*n+i]=s;
}
EC void combine(const float*P,float*C,int M,int N){
  int m=M/2, n=N/2;
  u32 i=gid();
  if(i>=(u32)(m*n)) return;
  float p[7];
  for(int j=0;j<7;++j) p[j]=P[(size_t)j*m*n+i];
  float*c=C+(size_t)(i/n)*N+i%n;
  c[0]=p[0]+p[3]-p[4]+p[6];
  c[n]=p[2]+p[4];
  c[(size_t)m*N]=p[1]+p[3];
  c[(size_t)m*N+n]=p[0]-p[1]+p[2]+p[5];
}
