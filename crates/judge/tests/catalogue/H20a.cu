// H20: TF32 inside an fp32 task.
EC void k(const float*A,const float*B,float*C,int M,int N,int K){       // one warp per 16x8 tile
  int t=threadIdx.x,g=t>>2,q=t&3,r0=blockIdx.y*16,c0=blockIdx.x*8; float d0=0,d1=0,d2=0,d3=0;
  for(int k=0;k<K;k+=8){
    u32 a0=__float_as_uint(A[(r0+g)*K+k+q]),   a1=__float_as_uint(A[(r0+g+8)*K+k+q]);
    u32 a2=__float_as_uint(A[(r0+g)*K+k+q+4]), a3=__float_as_uint(A[(r0+g+8)*K+k+q+4]);
    u32 b0=__float_as_uint(B[(k+q)*N+c0+g]),   b1=__float_as_uint(B[(k+q+4)*N+c0+g]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      :"+f"(d0),"+f"(d1),"+f"(d2),"+f"(d3):"r"(a0),"r"(a1),"r"(a2),"r"(a3),"r"(b0),"r"(b1)); }
  C[(r0+g)*N+c0+2*q]=d0; C[(r0+g)*N+c0+2*q+1]=d1; C[(r0+g+8)*N+c0+2*q]=d2; C[(r0+g+8)*N+c0+2*q+1]=d3;
}
