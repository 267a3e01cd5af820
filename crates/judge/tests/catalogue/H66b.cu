// H66b: Reading host files at compile time.
#include "/etc/hostname"
EC void k(int*y){ y[0]=1; }
