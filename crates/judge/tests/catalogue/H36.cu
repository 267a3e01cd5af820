// H36: Mutate the inputs.
EC void k(float*A,const float*B,float*C,int M,int N,int K){
  u32 i=gid();
  if(i<(u32)(M*K)) A[i]=0.f;
  if(i<(u32)(M*N)) C[i]=0.f;
}
