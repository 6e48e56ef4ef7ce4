import { execFileSync } from "node:child_process";
import { lstat, mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestServer } from "../support/server.ts";

/**
 * The attacker: swaps a folder for a symlink to a host folder and back again, as fast as it can,
 * until a file `stop` is there; at most so many times. Also where the folder comes and goes.
 */
const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
int main(int argc, char **argv) {
  const char *victim = argv[1], *link = argv[2], *target = argv[3];
  struct stat found;
  const char *pattern = strchr(victim, '*') ? victim : NULL;
  glob_t matches;
  for (long n = 0; n < 400000000L; n++) {
    if (pattern && n % 64 == 0) {
      if (access("stop", F_OK) == 0) return 0;
      if (n == 0 || access(victim, F_OK) != 0) {
        if (glob(pattern, 0, NULL, &matches) != 0) { n = -1; continue; }
        victim = matches.gl_pathv[0];
      }
    }
    if (n % 64 == 0) {
      if (access("stop", F_OK) == 0) return 0;
      if (lstat(link, &found) != 0 && lstat(victim, &found) == 0 && S_ISDIR(found.st_mode)) symlink(target, link);
      if (lstat(victim, &found) != 0 && lstat(link, &found) == 0 && S_ISDIR(found.st_mode)) {
        char grave[256];
        snprintf(grave, sizeof grave, "/tmp/grave-%ld-%d", n, getpid());
        if (rename(link, grave) != 0) { snprintf(grave, sizeof grave, "%s-%ld", link, n); rename(link, grave); }
      }
    }
    syscall(SYS_renameat2, AT_FDCWD, victim, AT_FDCWD, link, 2);
  }
  return 0;
}
`;

/** The same where there is no compiler. */
const SCRIPT = `#!/usr/bin/perl
my $number = \`uname -m\` =~ /x86_64/ ? 316 : 276;
my ($victim, $link, $target) = @ARGV;
my $pattern = $victim =~ /\\*/ ? $victim : undef;
for (my $n = 0; $n < 400_000_000; $n++) {
  if ($n % 64 == 0) {
    exit 0 if -e "stop";
    ($victim) = glob($pattern) if defined $pattern && !(defined $victim && -e $victim);
    if (!defined $victim) { $n = -1; next; }
    symlink($target, $link) if !-l $link && !-e $link && !-l $victim && -d $victim;
    rename($link, "$link-$n") if !-l $victim && !-e $victim && !-l $link && -d $link;
  }
  syscall($number, -100, $victim, -100, $link, 2);
}
`;

let built: Promise<Uint8Array> | undefined;

/** The attacker's program as bytes: from C, or in Perl where there is no compiler. */
export function buildSwapper(): Promise<Uint8Array> {
  built ??= compile();
  return built;
}

async function compile(): Promise<Uint8Array> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-swapper-"));
  try {
    await writeFile(join(folder, "swap.c"), SOURCE);
    execFileSync("gcc", ["-O2", "-o", join(folder, "swap"), join(folder, "swap.c")], { stdio: "ignore" });
    return await readFile(join(folder, "swap"));
  } catch {
    return Buffer.from(SCRIPT);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export interface Swap {
  /** Paths inside: the folder that is taken away, also by a pattern, and a name that the link is kept under meanwhile. */
  readonly victim: string;
  readonly link: string;
  /** The host folder that the link leads to. */
  readonly target: string;
}

/** Starts one attacker per swap inside of a session; `stop` ends them and waits for that. */
export async function startSwapping(
  { client }: TestServer,
  session: string,
  swaps: readonly Swap[],
): Promise<{ stop(): Promise<void> }> {
  await client.fs.write(session, "swapper", await buildSwapper());
  const each = swaps.map(({ victim, link, target }) => `./swapper "${victim}" ${link} ${target} &`);
  const command = `rm -f stop; chmod +x swapper; ${each.join(" ")} wait`;
  const { commandId, after } = await client.runCommand(session, { command });
  return {
    async stop() {
      await client.fs.write(session, "stop", "x");
      for await (const { type, data } of client.subscribe(session, { after, extensions: true })) {
        if (type === "command.ended" && data.command_id === commandId) break;
      }
    },
  };
}

/** The state of a host folder: names, owners, modes, times of change, contents. */
export async function describeTree(folder: string): Promise<string[]> {
  const lines: string[] = [];
  const look = async (path: string): Promise<void> => {
    const found = await lstat(path);
    const content = found.isFile()
      ? await readFile(path, "utf8")
      : found.isSymbolicLink()
        ? await readlink(path)
        : "";
    lines.push(
      [path, found.uid, found.gid, found.mode.toString(8), found.mtimeMs, found.ctimeMs, content].join(" "),
    );
    if (found.isDirectory()) for (const name of (await readdir(path)).sort()) await look(join(path, name));
  };
  await look(folder);
  return lines;
}
