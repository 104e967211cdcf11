#pragma once
#include <cassert>

#ifdef __CUDACC__
#define LACUNA_HD __host__ __device__
#define LACUNA_ANY_TEAM _Pragma("nv_exec_check_disable")  // before a template that may call a host-only or a device-only team
// Around code with pragmas for the host compiler, which nvcc hands on but warns about.
#define LACUNA_HOST_PRAGMAS_BEGIN _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 1675")
#define LACUNA_HOST_PRAGMAS_END _Pragma("nv_diagnostic pop")
#else
#define LACUNA_HD
#define LACUNA_ANY_TEAM
#define LACUNA_HOST_PRAGMAS_BEGIN
#define LACUNA_HOST_PRAGMAS_END
#endif

#if defined(__CUDA_ARCH__) && defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(LACUNA_HAS_SM90A)
#error "compiling for sm_90a needs LACUNA_HAS_SM90A=1 in every pass; link lacuna::cuda or define it"
#endif

// Two translation units with different architecture lists must not share a launcher (a weak symbol that would run only one
// list's kernels), so device-facing templates live in an inline namespace named by the list: sm_800_900a.
#define LACUNA_SELECT_9(a, b, c, d, e, f, g, h, name, ...) name
#define LACUNA_NAME_1(a) sm_##a
#define LACUNA_NAME_2(a, b) sm_##a##_##b
#define LACUNA_NAME_3(a, b, c) sm_##a##_##b##_##c
#define LACUNA_NAME_4(a, b, c, d) sm_##a##_##b##_##c##_##d
#define LACUNA_NAME_5(a, b, c, d, e) sm_##a##_##b##_##c##_##d##_##e
#define LACUNA_NAME_6(a, b, c, d, e, f) sm_##a##_##b##_##c##_##d##_##e##_##f
#define LACUNA_NAME_7(a, b, c, d, e, f, g) sm_##a##_##b##_##c##_##d##_##e##_##f##_##g
#define LACUNA_NAME_8(a, b, c, d, e, f, g, h) sm_##a##_##b##_##c##_##d##_##e##_##f##_##g##_##h
#define LACUNA_NAME_LIST(...)                                                                                                      \
  LACUNA_SELECT_9(__VA_ARGS__, LACUNA_NAME_8, LACUNA_NAME_7, LACUNA_NAME_6, LACUNA_NAME_5, LACUNA_NAME_4, LACUNA_NAME_3, LACUNA_NAME_2, \
                  LACUNA_NAME_1)                                                                                                   \
  (__VA_ARGS__)
#define LACUNA_APPEND_(a, b) a##b
#define LACUNA_APPEND(a, b) LACUNA_APPEND_(a, b)

#ifdef __CUDA_ARCH_LIST__
#ifdef LACUNA_HAS_SM90A
#define LACUNA_ARCH_NAMESPACE LACUNA_APPEND(LACUNA_NAME_LIST(__CUDA_ARCH_LIST__), a)
#else
#define LACUNA_ARCH_NAMESPACE LACUNA_NAME_LIST(__CUDA_ARCH_LIST__)
#endif
#else
#define LACUNA_ARCH_NAMESPACE host_only
#endif

#define LACUNA_ASSERT(condition) assert(condition)
