// The running frame of CPython, one header per version. The first include of the files that use it: it sets
// Py_BUILD_CORE.
#pragma once

#include <pyconfig.h>
// The internal headers pick <stdatomic.h> by this, which C++20 does not have; their other choice has the same layout.
#undef HAVE_STD_ATOMIC
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>

#define FRAMEJIT_CAN_SPLICE (PY_VERSION_HEX < 0x030c0000)

#if FRAMEJIT_CAN_SPLICE
#include "capture/py/frame_311.h"
#endif
