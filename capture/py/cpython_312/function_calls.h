#pragma once

#include "capture/py/function_calls.h"
