// H38: Write into a neighbour buffer.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n){
    float v=fmaxf(x[i],0.f);
    y[i]=v;
    y[i+n]=v;   // y and whatever follows y
  }
}
