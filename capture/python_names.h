// The modules of the Python package that C++ imports, or knows objects by.
#pragma once

namespace framejit::python_names {

inline constexpr const char* kControl = "framejit._control";
inline constexpr const char* kDtypes = "framejit._dtypes";
inline constexpr const char* kFormat = "framejit._format";
inline constexpr const char* kHost = "framejit._host";
inline constexpr const char* kHostGradients = "framejit._host_gradients";
inline constexpr const char* kNumpyFunctions = "framejit._numpy_functions";
inline constexpr const char* kPolyfills = "framejit._polyfills";
inline constexpr const char* kSpecs = "framejit._specs";
inline constexpr const char* kTensor = "framejit._tensor";
inline constexpr const char* kVerify = "framejit._verify";

}  // namespace framejit::python_names
