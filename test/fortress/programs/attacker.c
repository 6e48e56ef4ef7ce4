/* Tries every way to make a file privileged, every family, and the memory of another process; says what worked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
static char secret[] = "untouched";
static void fresh(const char *name) { unlink(name); close(open(name, O_CREAT | O_WRONLY, 0755)); }
static void look(const char *how, const char *name) {
  struct stat found;
  if (stat(name, &found) == 0 && (found.st_mode & 06000)) printf("BITS %s %o\n", how, found.st_mode);
}
int main(void) {
  int bits[] = {04755, 02755, 06755};
  for (int i = 0; i < 3; i++) {
    int mode = bits[i], fd;
    fresh("a"); chmod("a", mode); look("chmod", "a");
    fresh("b"); fd = open("b", O_RDWR); fchmod(fd, mode); close(fd); look("fchmod", "b");
    fresh("c"); fchmodat(AT_FDCWD, "c", mode, 0); look("fchmodat", "c");
    fresh("d"); syscall(452, AT_FDCWD, "d", mode, 0); look("fchmodat2", "d");
    unlink("e"); mknod("e", S_IFREG | mode, 0); look("mknod", "e");
    unlink("f"); mknodat(AT_FDCWD, "f", S_IFREG | mode, 0); look("mknodat", "f");
    unlink("g"); close(open("g", O_CREAT | O_WRONLY, mode)); look("open", "g");
#ifdef SYS_open
    unlink("h"); close(syscall(SYS_open, "h", O_CREAT | O_WRONLY, mode)); look("the old open", "h");
    unlink("i"); close(syscall(SYS_creat, "i", mode)); look("creat", "i");
#endif
    unlink("j"); { unsigned long long how[3] = {O_CREAT | O_WRONLY, (unsigned long long)mode, 0};
      close(syscall(437, AT_FDCWD, "j", how, sizeof how)); look("openat2", "j"); }
    unlink("k"); fd = open(".", O_TMPFILE | O_RDWR, mode); if (fd >= 0) { char path[64];
      sprintf(path, "/proc/self/fd/%d", fd); linkat(AT_FDCWD, path, AT_FDCWD, "k", AT_SYMLINK_FOLLOW);
      close(fd); look("O_TMPFILE", "k"); }
    rmdir("l"); mkdir("l", mode); look("mkdir", "l");
  }
  fresh("m");
  unsigned caps[5] = {0x02000001, 0xffffffff, 0, 0xffffffff, 0};
  if (setxattr("m", "security.capability", caps, sizeof caps, 0) == 0) printf("BITS setxattr\n");
  for (int family = 0; family < 64; family++) {
    for (int type = 1; type <= 10; type++) {
      int fd = socket(family, type, 0), pair[2];
      if (fd >= 0 && family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
        printf("FAMILY %d\n", family);
      if (fd >= 0) close(fd);
      if (socketpair(family, type, 0, pair) == 0) {
        if (family != AF_UNIX) printf("PAIR %d\n", family);
        close(pair[0]); close(pair[1]);
      }
    }
  }
  pid_t victim = fork();
  if (victim == 0) { pause(); _exit(0); }
  char path[64]; sprintf(path, "/proc/%d/mem", victim);
  int mem = open(path, O_RDWR);
  if (mem >= 0 && pwrite(mem, "overwrite", 9, (off_t)secret) == 9) printf("MEMORY by /proc\n");
  if (ptrace(PTRACE_SEIZE, victim, 0, 0) == 0) printf("MEMORY by ptrace\n");
  struct iovec ours = {"overwrite", 9}, theirs = {secret, 9};
  if (process_vm_writev(victim, &ours, 1, &theirs, 1, 0) >= 0) printf("MEMORY by writev\n");
  int pidfd = syscall(434, victim, 0);
  if (syscall(438, pidfd, 1, 0) >= 0) printf("FD by pidfd_getfd\n");
  kill(victim, SIGKILL); waitpid(victim, 0, 0);
  printf("done\n");
  return 0;
}
