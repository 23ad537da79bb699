/* SPDX-License-Identifier: Apache-2.0 */
/* Public (cmake/Install.cmake).
 *
 * The library for programs in other languages: C functions that take a request in JSON and give an
 * answer in JSON, the same bytes as the command's --json.  python/ is made of them.
 *
 *   stepcast_answer* answer = stepcast_run("{\"file\": \"my.yaml\"}", NULL, NULL);
 *   if (stepcast_status(answer) == 0) puts(stepcast_bytes(answer, NULL));
 *   stepcast_free(answer);
 *
 * An answer is never NULL, and nothing is thrown: stepcast_status() says what the command would
 * exit with, and of any status but 0 the bytes are {"error": {...}, "errors": [...]}
 * (docs/errors.md).  Functions may be called by any number of threads at once; one answer may be
 * used by several threads as long as none frees it.
 *
 * Keys of requests.  What a key takes is what the command's option of that name takes; a key that a
 * function does not know is error E003.
 *
 *   a scenario     "file": a path, or "text": YAML or JSON with "name", what messages call it, and
 *                  "path", a file from whose folder what it names is seen;
 *                  "root": as --root; "set": [["parallel.tp", "4"], ...], as --set, in order
 *   load           the scenario
 *   run            the scenario; "ranks": "all"; "what_if": true; "jobs": a number
 *   compare        the scenario, which has a section `compare`, or with "schedules": ["1f1b", ...];
 *                  or "cases": [{a scenario, "case": its name}, ...]; "jobs": a number
 *   search         the scenario; "search": [["objective", "[price, days]"], ["budget", "60s"],
 *                  ...], its section `search`; "where": list of texts; "fewest_gpus",
 *                  "most_gpus", "next", "jobs": numbers; "store": a folder
 *   train          the scenario; "tokens": a text; "replicas", "seed", "days": numbers; "gpus": a
 *                  list of numbers
 *   size           "model": a scenario, config.json or preset, or "text" with "name"; "root",
 *                  "set"; "gpu", "tokens", "mfu": texts; "search": false
 *   presets        "kind": "gpus"; "show": a name
 *   import         "kind"; "file": what messages call it, with its "text"; "model_file" and
 *                  "model_text": of a config.json; without a text the file is read, of a folder
 *                  the config.json in it; "preset", "gpu": texts; "set"
 *   stepcast_render
 *     of run       {"form": "text" | "perfetto" | "html" | "ops"}
 *     of compare   {"form": "text" | "html"}
 *     of search    {"form": "text" | "csv" | "html"},
 *                  {"form": "scenario" | "megatron_args", "index": 0}
 *     of train     {"form": "text" | "html"}
 *     of size      {"form": "text"}
 *     of an error  {"form": "text"}
 */
#ifndef STEPCAST_CAPI_STEPCAST_C_H
#define STEPCAST_CAPI_STEPCAST_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a function or the meaning of a key does; new keys and functions may come. */
#define STEPCAST_API_VERSION 1

typedef struct stepcast_answer stepcast_answer;

/* How far a long call is, ten times a second at most, on the thread that made the call.  Anything
 * but 0 ends it: a search with what has been found, anything else with status 130.  `total` is 0
 * before it is known.  May be NULL. */
typedef int (*stepcast_progress)(void* context, int64_t done, int64_t total);

/* STEPCAST_API_VERSION of the library, and its version: "0.2.0". */
int stepcast_api_version(void);
const char* stepcast_version(void);

stepcast_answer* stepcast_load(const char* request);
stepcast_answer* stepcast_run(const char* request, stepcast_progress progress, void* context);
stepcast_answer* stepcast_compare(const char* request, stepcast_progress progress, void* context);
stepcast_answer* stepcast_search(const char* request, stepcast_progress progress, void* context);
stepcast_answer* stepcast_train(const char* request);
stepcast_answer* stepcast_size(const char* request);
stepcast_answer* stepcast_presets(const char* request);
stepcast_answer* stepcast_import(const char* request);

/* The same answer in another form: text for people, a file.  A new answer, whose bytes it is. */
stepcast_answer* stepcast_render(const stepcast_answer* answer, const char* request);

/* 0, or as the command exits: 1 a bug, or not enough memory; 2 the request or the scenario; 4 the
 * schedule deadlocks; 7 reading and writing files; 130 the progress function ended it. */
int stepcast_status(const stepcast_answer* answer);
/* Valid until the answer is freed; ends with a zero that is not counted.  `length` may be NULL. */
const char* stepcast_bytes(const stepcast_answer* answer, size_t* length);
void stepcast_free(stepcast_answer* answer);

#ifdef __cplusplus
}
#endif

#endif
