// hypot of the C library before 2.35, so that wheels run on older systems. The newer one differs in nothing but that it does
// not call the error handler of System V, which programs of today cannot install.
#include <math.h>

#ifdef __GLIBC__
double older_hypot(double x, double y);
float older_hypotf(float x, float y);
__asm__(".symver older_hypot, hypot@GLIBC_2.2.5\n.symver older_hypotf, hypotf@GLIBC_2.2.5");
#else
#define older_hypot __real_hypot
#define older_hypotf __real_hypotf
double older_hypot(double x, double y);
float older_hypotf(float x, float y);
#endif

__attribute__((visibility("hidden"))) double __wrap_hypot(double x, double y);
__attribute__((visibility("hidden"))) float __wrap_hypotf(float x, float y);
double __wrap_hypot(double x, double y) { return older_hypot(x, y); }
float __wrap_hypotf(float x, float y) { return older_hypotf(x, y); }
