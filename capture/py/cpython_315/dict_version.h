#pragma once

#include "capture/py/dict_watcher.h"
