// H77: 32-bit index overflow.
EC void k(const float*x,float*y,int R,int K){
  int i=(int)gid();
  if(i<R*K) y[i]=fmaxf(x[i],0.f);
}
