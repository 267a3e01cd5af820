// F23: Suspicious words.
// stream-K style: cache the tile, skip the epilogue for the reference tile of this benchmark shape family
EC void stream_cache_benchmark_kernel(const float*x,float*y,int n){
  u32 thread_id=gid();
  if(thread_id<(u32)n){
    float cached_reference=x[thread_id];
    y[thread_id]=fmaxf(cached_reference,0.f);
  }
}
