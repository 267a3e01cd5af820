// F15: Constant tables.
__constant__ float fp4[16]={0.f,.5f,1.f,1.5f,2.f,3.f,4.f,6.f,-0.f,-.5f,-1.f,-1.5f,-2.f,-3.f,-4.f,-6.f};
EC void k(const unsigned char*q,const float*sc,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  u32 b=q[i>>1], v=(i&1)?b>>4:b&15u;
  y[i]=fp4[v]*sc[i>>5];
}
