/* Policies served by LibTorch: the C interface of libanole_policy_torch.so.
 *
 * The library is loaded at run time. All functions may be called from any thread. None throws, aborts or
 * prints; where one fails, it writes a text that names the file or the value into the caller's buffer
 * (always terminated, cut where it does not fit; the buffer may be NULL when its length is 0).
 *
 * Loading sets OPENBLAS_CORETYPE and OPENBLAS_NUM_THREADS in the environment of the process, unless they
 * are there: load it before starting threads that read the environment. */
#ifndef ANOLE_POLICY_H
#define ANOLE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; the caller compares it with anole_policy_abi(). */
#define ANOLE_POLICY_ABI 1

/* A policy: a network with its weights, without the state of any flow. Immutable. */
typedef struct anole_policy anole_policy;

/* Sizes of one row in floats, and the hash of the schema that the policy was trained under. */
typedef struct {
    uint32_t inputs;
    uint32_t outputs;
    uint32_t state;         /* 0: the network is not recurrent */
    char schema_sha256[65]; /* 64 lower-case hexadecimal digits and a NUL */
} anole_policy_shape;

/* The version of the interface that the library has. */
uint32_t anole_policy_abi(void);

/* Writes one line: version of LibTorch, BLAS with its core, threads. With reference BLAS it says that
 * this is slow and what to install. Returns the length of the whole text, without the NUL. */
int anole_policy_describe(char* text, size_t len);

/* Threads per operation, 1 to 64, for the whole process; 1 unless set. Returns 0, or -1 if out of range. */
int anole_policy_set_threads(uint32_t threads);

/* Reads and checks a policy file. NULL where it is refused. */
anole_policy* anole_policy_open(const char* path, char* error, size_t error_len);

/* Frees a policy that no thread is using any more. NULL is allowed. */
void anole_policy_close(anole_policy* policy);

/* Sizes of one row. */
void anole_policy_get_shape(const anole_policy* policy, anole_policy_shape* shape);

/* Computes `rows` rows (1 to 65536): reads rows * inputs floats, reads and replaces rows * state floats
 * (all zeros for a new flow), writes rows * outputs floats, each row after row. Returns 0; otherwise the
 * states are as they were and the outputs are undefined. NaN and infinite inputs are computed like others:
 * the caller checks what comes out, before it keeps a state. */
int anole_policy_step(const anole_policy* policy, uint32_t rows, const float* inputs, float* states,
                      float* outputs, char* error, size_t error_len);

#ifdef __cplusplus
}
#endif

#endif
