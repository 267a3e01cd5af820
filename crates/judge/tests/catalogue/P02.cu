// P02: The same without a trick: matrix product.
EC void k(const float*A,const float*B,float*C,int M,int N,int K){
  u32 i=gid();
  if(i<(u32)(M*N)) C[i]=dot(A,B,i/N,i%N,N,K);
}
