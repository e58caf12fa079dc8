#include "dptk.h"
