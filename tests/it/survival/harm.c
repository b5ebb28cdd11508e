/* What C code can do to a process: see harm.ml. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <caml/alloc.h>
#include <caml/mlvalues.h>

value harm_exit(value status) { exit(Int_val(status)); }
value harm_exit_at_once(value status) { _Exit(Int_val(status)); }
value harm_quick_exit(value status) { quick_exit(Int_val(status)); }
value harm_thread_exit(value unit) { pthread_exit(NULL); }
value harm_abort(value unit) { abort(); }

/* The C library finds it while it holds the lock of this thread's heap. */
value harm_free_twice(value unit) {
  void *volatile one = malloc(3000), *volatile behind = malloc(3000);
  free(one);
  free(one);
  free(behind);
  return Val_unit;
}

value harm_kill(value signal) { return Val_int(kill(getpid(), Int_val(signal))); }

value harm_bus(value unit) {
  FILE *empty = tmpfile();
  char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
  fclose(empty);
  return Val_int(*(volatile char *) page);
}

/* Frames as large as a page step over a guard of one. */
static int deep(volatile char *above) {
  volatile char frame[4096];
  frame[0] = above[0] + 1;
  return deep(frame) + frame[0];
}
value harm_deep(value unit) { char bottom = 0; return Val_int(deep(&bottom)); }

value harm_spin(value unit) { volatile int on = 1; while (on) {} return Val_unit; }

value harm_sleep(value seconds) {
  for (int left = Int_val(seconds); left > 0; left = sleep(left)) {}
  return Val_unit;
}

value harm_mask_all(value unit) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  sigprocmask(SIG_BLOCK, &all, NULL);
  return Val_unit;
}

value harm_ignore(value number) { signal(Int_val(number), SIG_IGN); return Val_unit; }
value harm_default(value number) { signal(Int_val(number), SIG_DFL); return Val_unit; }

value harm_no_signal_stack(value unit) {
  stack_t none = { .ss_flags = SS_DISABLE };
  sigaltstack(&none, NULL);
  return Val_unit;
}

value harm_limit(value resource, value soft) {
  struct rlimit limit;
  getrlimit(Int_val(resource), &limit);
  limit.rlim_cur = Long_val(soft);
  setrlimit(Int_val(resource), &limit);
  return Val_unit;
}
value harm_soft(value resource) {
  struct rlimit limit;
  getrlimit(Int_val(resource), &limit);
  return Val_long((long) limit.rlim_cur);
}

value harm_locale(value name) { setlocale(LC_ALL, String_val(name)); return Val_unit; }

/* The error's number, or 0. */
value harm_close(value number) { return Val_int(close(Int_val(number)) ? errno : 0); }
value harm_close_range(value first, value last) {
  return Val_int(close_range(Int_val(first), Int_val(last), 0) ? errno : 0);
}
value harm_close_from(value first) { closefrom(Int_val(first)); return Val_unit; }
value harm_nonblock(value number) {
  return Val_int(fcntl(Int_val(number), F_SETFL, O_NONBLOCK) < 0 ? errno : 0);
}
value harm_close_streams(value unit) {
  fclose(stdin);
  fclose(stdout);
  fclose(stderr);
  return Val_unit;
}
