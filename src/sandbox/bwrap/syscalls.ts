/**
 * Calls for debugging, mounting, namespaces and kernel internals: no agent needs them, and they have led out of
 * sandboxes. The list has all calls that Docker denies to a container without capabilities.
 */
export const DENIED = {
  x64: {
    _sysctl: 156,
    acct: 163,
    add_key: 248,
    bpf: 321,
    chroot: 161,
    clock_adjtime: 305,
    clock_settime: 227,
    create_module: 174,
    delete_module: 176,
    fanotify_init: 300,
    fanotify_mark: 301,
    finit_module: 313,
    fsconfig: 431,
    fsmount: 432,
    fsopen: 430,
    fspick: 433,
    get_kernel_syms: 177,
    get_mempolicy: 239,
    init_module: 175,
    io_uring_enter: 426,
    io_uring_register: 427,
    io_uring_setup: 425,
    ioperm: 173,
    iopl: 172,
    kcmp: 312,
    kexec_file_load: 320,
    kexec_load: 246,
    keyctl: 250,
    lookup_dcookie: 212,
    lsm_set_self_attr: 460,
    mbind: 237,
    migrate_pages: 256,
    mount: 165,
    mount_setattr: 442,
    move_mount: 429,
    move_pages: 279,
    nfsservctl: 180,
    open_by_handle_at: 304,
    open_tree: 428,
    open_tree_attr: 467,
    perf_event_open: 298,
    pidfd_getfd: 438,
    pivot_root: 155,
    process_madvise: 440,
    process_vm_readv: 310,
    process_vm_writev: 311,
    ptrace: 101,
    query_module: 178,
    quotactl: 179,
    quotactl_fd: 443,
    reboot: 169,
    request_key: 249,
    set_mempolicy: 238,
    set_mempolicy_home_node: 450,
    setns: 308,
    settimeofday: 164,
    swapoff: 168,
    swapon: 167,
    sysfs: 139,
    syslog: 103,
    umount2: 166,
    unshare: 272,
    uselib: 134,
    userfaultfd: 323,
    ustat: 136,
    vhangup: 153,
  },
  arm64: {
    acct: 89,
    add_key: 217,
    bpf: 280,
    chroot: 51,
    clock_adjtime: 266,
    clock_settime: 112,
    delete_module: 106,
    fanotify_init: 262,
    fanotify_mark: 263,
    finit_module: 273,
    fsconfig: 431,
    fsmount: 432,
    fsopen: 430,
    fspick: 433,
    get_mempolicy: 236,
    init_module: 105,
    io_uring_enter: 426,
    io_uring_register: 427,
    io_uring_setup: 425,
    kcmp: 272,
    kexec_file_load: 294,
    kexec_load: 104,
    keyctl: 219,
    lookup_dcookie: 18,
    lsm_set_self_attr: 460,
    mbind: 235,
    migrate_pages: 238,
    mount: 40,
    mount_setattr: 442,
    move_mount: 429,
    move_pages: 239,
    nfsservctl: 42,
    open_by_handle_at: 265,
    open_tree: 428,
    open_tree_attr: 467,
    perf_event_open: 241,
    pidfd_getfd: 438,
    pivot_root: 41,
    process_madvise: 440,
    process_vm_readv: 270,
    process_vm_writev: 271,
    ptrace: 117,
    quotactl: 60,
    quotactl_fd: 443,
    reboot: 142,
    request_key: 218,
    set_mempolicy: 237,
    set_mempolicy_home_node: 450,
    setns: 268,
    settimeofday: 170,
    swapoff: 225,
    swapon: 224,
    syslog: 116,
    umount2: 39,
    unshare: 97,
    userfaultfd: 282,
    vhangup: 58,
  },
} as const;

/** Calls that set the mode of a file: the number, and the index of the mode argument. */
export const MODE_CALLS = {
  x64: {
    chmod: [90, 1],
    creat: [85, 1],
    fchmod: [91, 1],
    fchmodat: [268, 2],
    fchmodat2: [452, 2],
    mknod: [133, 1],
    mknodat: [259, 2],
  },
  arm64: { fchmod: [52, 1], fchmodat: [53, 2], fchmodat2: [452, 2], mknodat: [33, 2] },
} as const satisfies Record<Machine, Record<string, readonly [number, number]>>;

/** Calls that use a mode only when they make a file: the number, and the index of the flags. The mode is the next. */
export const OPEN_CALLS = {
  x64: { openat: [257, 2], open: [2, 1] },
  arm64: { openat: [56, 2] },
} as const satisfies Record<Machine, Record<string, readonly [number, number]>>;

export const CLONE = { x64: 56, arm64: 220 } as const;
export const IOCTL = { x64: 16, arm64: 29 } as const;
export const SOCKET = { x64: 41, arm64: 198 } as const;
export const SOCKETPAIR = { x64: 53, arm64: 199 } as const;
export const FALLOCATE = { x64: 285, arm64: 47 } as const;
/** These two take a pointer to their arguments, which a filter cannot read. Without them libc uses the old calls. */
export const CLONE3 = 435;
export const OPENAT2 = 437;
/** The newest reviewed call, file_setattr of Linux 6.17. Later ones are reported as missing. */
export const HIGHEST = 469;
/** The kernel's number of an architecture in a filter. */
export const AUDIT_ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;

// Argument values, equal on both machines.
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
export const NEW_NAMESPACES = 0x7e020000;
export const AF_UNIX = 1;
export const AF_INET = 2;
export const AF_INET6 = 10;
export const AF_NETLINK = 16;
export const NETLINK_ROUTE = 0;
/** S_ISUID and S_ISGID. */
export const PRIVILEGE_BITS = 0o6000;
/** O_CREAT, and the bit of O_TMPFILE that is not O_DIRECTORY. */
export const MAKES_FILE = 0o100 | 0o20000000;
/** FALLOC_FL_PUNCH_HOLE and FALLOC_FL_COLLAPSE_RANGE. */
export const FREES_SPACE = 0x02 | 0x08;
export const EPERM = 1;
export const ENOSYS = 38;
export const EPROTONOSUPPORT = 93;
export const EOPNOTSUPP = 95;
export const EAFNOSUPPORT = 97;

export type Machine = "x64" | "arm64";
