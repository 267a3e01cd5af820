// H35: Undeclared domain (alignment, divisibility, stride).
EC void k(const float4*x,float4*y,int n){
  u32 i=gid();
  if(i*4<(u32)n){
    float4 v=x[i];
    v.x=fmaxf(v.x,0);
    v.y=fmaxf(v.y,0);
    v.z=fmaxf(v.z,0);
    v.w=fmaxf(v.w,0);
    y[i]=v;
  }
}
