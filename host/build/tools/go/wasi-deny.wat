;; Functions of WASI that the runtime of Go imports, without a host behind them: the clock stands still, random numbers are
;; constant, there are no arguments, environment and files, and everything else fails with ENOSYS (52).
(module
  (import "env" "memory" (memory 0))
  (func (export "sched_yield") (result i32) i32.const 0)
  (func (export "proc_exit") (param i32) unreachable)
  (func $none (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0)) (i32.store (local.get 1) (i32.const 0)) i32.const 0)
  (func (export "args_sizes_get") (param i32 i32) (result i32) (call $none (local.get 0) (local.get 1)))
  (func (export "environ_sizes_get") (param i32 i32) (result i32) (call $none (local.get 0) (local.get 1)))
  (func (export "args_get") (param i32 i32) (result i32) i32.const 0)
  (func (export "environ_get") (param i32 i32) (result i32) i32.const 0)
  (func (export "clock_time_get") (param i32 i64 i32) (result i32)
    (i64.store (local.get 2) (i64.const 1000000000)) i32.const 0)
  (func (export "random_get") (param i32 i32) (result i32)
    (memory.fill (local.get 0) (i32.const 0x5a) (local.get 1)) i32.const 0)
  ;; What is printed is lost: Go's runtime would print its own failure if this failed.
  (func (export "fd_write") (param $fd i32) (param $parts i32) (param $count i32) (param $written i32) (result i32)
    (local $size i32)
    (block $end
      (loop $next
        (br_if $end (i32.eqz (local.get $count)))
        (local.set $size (i32.add (local.get $size) (i32.load offset=4 (local.get $parts))))
        (local.set $parts (i32.add (local.get $parts) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $size))
    i32.const 0)
  (func (export "fd_close") (param i32) (result i32) i32.const 52)
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) i32.const 52)
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32) i32.const 52)
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) i32.const 52)
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) i32.const 52)
  ;; EBADF (8) is the end of the list of directories.
  (func (export "fd_prestat_get") (param i32 i32) (result i32) i32.const 8)
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) i32.const 8)
  (func (export "poll_oneoff") (param i32 i32 i32 i32) (result i32) i32.const 52))
