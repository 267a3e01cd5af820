// F26: Less traffic than the naive byte count.
// Touches the rows that are asked for, not the table.
EC void k(const int*id,const float*table,float*y,int D){
  u32 d=gid();
  if(d<(u32)D) y[(size_t)blockIdx.y*D+d]=table[(size_t)id[blockIdx.y]*D+d];
}
