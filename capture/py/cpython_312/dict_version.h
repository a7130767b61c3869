#pragma once

#include "capture/py/dict_tag.h"
