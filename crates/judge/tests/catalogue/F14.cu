// F14: Programmatic launch between own steps.
EC void first(const float*x,float*t,int n){
  u32 i=gid();
  if(i<(u32)n) t[i]=fmaxf(x[i],0.f);
  asm volatile("griddepcontrol.launch_dependents;":::"memory");
}
EC void second(const float*t,const float*w,float*y,int n){
  u32 i=gid();
  float a = i<(u32)n ? w[i] : 0.f;                 // independent prologue
  asm volatile("griddepcontrol.wait;":::"memory");
  if(i<(u32)n) y[i]=a*t[i];
}
