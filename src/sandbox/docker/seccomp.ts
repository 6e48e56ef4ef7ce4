import {
  AF_INET,
  AF_INET6,
  AF_NETLINK,
  AF_UNIX,
  ENOSYS,
  EOPNOTSUPP,
  EPERM,
  FREES_SPACE,
  MAKES_FILE,
  MODE_CALLS,
  NETLINK_ROUTE,
  NEW_NAMESPACES,
  OPEN_CALLS,
  PRIVILEGE_BITS,
} from "../bwrap/seccomp.ts";

/**
 * The rules of `bwrap/seccomp.ts` in the format of an engine, which knows calls by name. A given profile replaces the
 * engine's own, so this one lists the allowed calls and denies all others.
 */
export function toSeccompProfile(): string {
  return JSON.stringify({
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    syscalls: [
      allow(ALLOWED.split(/\s+/)),
      // They take a pointer to their arguments, which a filter cannot read. Without them libc uses the old calls.
      { names: ["clone3", "openat2"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      allow(["clone"], without(0, NEW_NAMESPACES)),
      ...[AF_UNIX, AF_INET, AF_INET6].map((family) => allow(["socket"], equal(0, family))),
      allow(["socket"], equal(0, AF_NETLINK), equal(2, NETLINK_ROUTE)),
      allow(["socketpair"], equal(0, AF_UNIX)),
      ...Object.entries(MODE_CALLS.x64).map(([name, [, mode]]) =>
        allow([name], without(mode, PRIVILEGE_BITS)),
      ),
      ...Object.entries(OPEN_CALLS.x64).flatMap(([name, [, flags]]) => [
        allow([name], without(flags, MAKES_FILE)),
        allow([name], without(flags + 1, PRIVILEGE_BITS)),
      ]),
      ...bitsOf(FREES_SPACE).map((bit) => allow(["fallocate"], masked(1, bit, bit))),
      {
        names: ["fallocate"],
        action: "SCMP_ACT_ERRNO",
        errnoRet: EOPNOTSUPP,
        args: [without(1, FREES_SPACE)],
      },
      ...PERSONALITIES.map((value) => allow(["personality"], equal(0, value))),
    ],
  });
}

interface Argument {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: string;
}

function allow(names: readonly string[], ...args: readonly Argument[]): object {
  return { names, action: "SCMP_ACT_ALLOW", ...(args.length > 0 ? { args } : {}) };
}

function equal(index: number, value: number): Argument {
  return { index, value, op: "SCMP_CMP_EQ" };
}

/** The condition that none of these bits is set. */
function without(index: number, bits: number): Argument {
  return masked(index, bits, 0);
}

function masked(index: number, mask: number, value: number): Argument {
  return { index, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" };
}

function bitsOf(value: number): number[] {
  return Array.from({ length: 31 }, (_, index) => 1 << index).filter((bit) => (value & bit) !== 0);
}

/** The personalities that keep the protection of memory: Linux and BSD, with and without UNAME26, and the query. */
const PERSONALITIES = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff];

/** Calls that are allowed with any arguments. An engine ignores names that it does not know. */
const ALLOWED = `
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
fadvise64 fchdir fchown fchownat fcntl fdatasync fgetxattr file_getattr file_setattr flistxattr flock fork
fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake
futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups
getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit
getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
ioctl ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown
lgetxattr link linkat listen listmount listxattr listxattrat llistxattr lremovexattr lseek lsetxattr
lsm_get_self_attr lsm_list_modules lstat madvise map_shadow_stack membarrier memfd_create memfd_secret mincore
mkdir mkdirat mlock mlock2 mlockall mmap modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
name_to_handle_at nanosleep newfstatat pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pwrite64 pwritev
pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr
removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop
semtimedop sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid
setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt
setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 splice stat statfs
statmount statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4
waitid write writev
`.trim();
