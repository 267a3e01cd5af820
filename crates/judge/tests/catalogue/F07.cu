// F07: Split emulation of fp32 on tensor cores (3×TF32, bf16×3).
__device__ __forceinline__ float hi_tf32(float a){ u32 r; asm("cvt.rna.tf32.f32 %0,%1;":"=r"(r):"f"(a)); return __uint_as_float(r); }
EC void split(const float*A,float*H,float*L,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  float h=hi_tf32(A[i]);
  H[i]=h;
  L[i]=hi_tf32(A[i]-h);                            // then C = H*H' + H*L' + L*H'
}
__device__ __forceinline__ void mma(float*d,const float*A,const float*B,int N,int K,int r0,int c0,int k){
  int t=threadIdx.x,g=t>>2,q=t&3;
  u32 a0=__float_as_uint(A[(r0+g)*K+k+q]),   a1=__float_as_uint(A[(r0+g+8)*K+k+q]);
  u32 a2=__float_as_uint(A[(r0+g)*K+k+q+4]), a3=__float_as_uint(A[(r0+g+8)*K+k+q+4]);
  u32 b0=__float_as_uint(B[(k+q)*N+c0+g]),   b1=__float_as_uint(B[(k+q+4)*N+c0+g]);
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
    "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
    :"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]):"r"(a0),"r"(a1),"r"(a2),"r"(a3),"r"(b0),"r"(b1));
}
EC void k(const float*AH,const float*AL,const float*BH,const float*BL,float*C,int M,int N,int K){
  int t=threadIdx.x,g=t>>2,q=t&3,r0=blockIdx.y*16,c0=blockIdx.x*8;
  float d[4]={0.f,0.f,0.f,0.f};
  for(int k=0;k<K;k+=8){                           // the unit truncates where it adds: long sums are made outside
    float e[4]={0.f,0.f,0.f,0.f};
    mma(e,AL,BH,N,K,r0,c0,k);
    mma(e,AH,BL,N,K,r0,c0,k);
    mma(e,AH,BH,N,K,r0,c0,k);
    for(int i=0;i<4;++i) d[i]+=e[i];
  }
  C[(r0+g)*N+c0+2*q]=d[0];   C[(r0+g)*N+c0+2*q+1]=d[1];
  C[(r0+g+8)*N+c0+2*q]=d[2]; C[(r0+g+8)*N+c0+2*q+1]=d[3];
}
