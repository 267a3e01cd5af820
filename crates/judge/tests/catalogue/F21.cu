// F21: Reads inside the guaranteed padding.
EC void k(const float4*x,float*y,int n){
  u32 i=gid();
  if(i*4>=(u32)n) return;
  float4 v=x[i];                                   // may read up to 12 bytes of padding
  float a[4]={v.x,v.y,v.z,v.w};
  for(int j=0;j<4;++j) if(i*4+j<(u32)n) y[i*4+j]=fmaxf(a[j],0.f);
}
