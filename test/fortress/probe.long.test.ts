import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script } from "../cli/workbench.ts";
import { detectBwrap, findBwrap, tryBwrap } from "../../src/sandbox/bwrap/detect.ts";
import { describeFortress, makeFolder, SERVER_USERS } from "./fortress-bench.ts";
import { asUser, BIN, Elsewhere } from "./machines.ts";

describe.each(SERVER_USERS)("in a pod with a masked /proc, under $name", (user) => {
  let bench: Elsewhere;
  beforeEach(() => {
    bench = new Elsewhere("masked /proc", user);
  });
  afterEach(() => bench.close());

  it("doctor says that bwrap does not work, why, and the remedy", async () => {
    const { out, code } = await bench.sluice(["doctor", "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ defaultSandbox: null });
    expect(JSON.parse(out).sandboxes[0]).toMatchObject({
      id: "bwrap",
      ok: false,
      hint: expect.stringMatching(/\/proc.*Operation not permitted/),
      command: expect.stringContaining("systempaths=unconfined"),
    });
  });

  it("run refuses before it makes a session", async () => {
    const ran = await bench.sluice(["run", script({ shell: "touch made" })]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toContain("systempaths=unconfined");
    expect(readdirSync(bench.work)).toEqual([]);
  });
});

describe("the obstacles to bwrap", () => {
  const CASES = [
    ["kernel.unprivileged_userns_clone", "0", /sysctl -w kernel\.unprivileged_userns_clone=1 .*every user/],
    ["user.max_user_namespaces", "0", /sysctl -w user\.max_user_namespaces=15000 .*every user/],
    ["kernel.apparmor_restrict_unprivileged_userns", "1", /profile bwrap .*\/etc\/apparmor\.d\/bwrap/],
  ] as const;

  it.each(CASES)("%s is told with its remedy", async (setting, value, remedy) => {
    const settings = await makeFolder({ name: "root", ids: undefined });
    const file = join(settings, setting.replaceAll(".", "/"));
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, `${value}\n`);
    const detected = await detectBwrap(await failingBwrap(settings), { settings });
    expect(detected).toMatchObject({ available: false, remedy: expect.stringMatching(remedy) });
    expect(detected.reason).toContain(setting);
  });

  it("AppArmor's remedy is a shell line that writes a profile for bwrap alone, and switches nothing off", async () => {
    const settings = await makeFolder({ name: "root", ids: undefined });
    await mkdir(join(settings, "kernel"));
    await writeFile(join(settings, "kernel/apparmor_restrict_unprivileged_userns"), "1\n");
    const bwrap = await failingBwrap(settings);
    const { remedy = "" } = await detectBwrap(bwrap, { settings });
    expect(remedy).not.toContain("sysctl");
    // The first half of the pipe is run for real.
    const profile = execFileSync("/bin/sh", ["-c", remedy.split("|")[0] ?? ""], { encoding: "utf8" });
    expect(profile.split("\n")).toEqual([
      "abi <abi/4.0>,",
      "include <tunables/global>",
      `profile bwrap ${bwrap} flags=(unconfined) {`,
      "  userns,",
      "  include if exists <local/bwrap>",
      "}",
      "",
    ]);
  });

  it("a machine without a filter of system calls is not chosen, and works where it is named", async () => {
    const bwrap = await findBwrap();
    expect(await detectBwrap(bwrap, { arch: "riscv64" })).toMatchObject({
      available: false,
      reason: expect.stringContaining("riscv64"),
    });
    if (bwrap !== undefined) expect(await tryBwrap(bwrap)).toMatchObject({ available: true });
  });
});

describeFortress("the probe", (user) => {
  let bench: Elsewhere;
  beforeEach(() => {
    bench = new Elsewhere("no bwrap", user);
  });
  afterEach(() => bench.close());

  it("leaves no folder, no process and no group behind", async () => {
    const env = { TMPDIR: bench.work };
    const argv = [...asUser(user), process.execPath, BIN, "doctor", "--json"];
    const ran = await bench.run([], { argv, env });
    expect(JSON.parse(ran.out)).toMatchObject({ defaultSandbox: "bwrap" });
    // Agents that are asked for their versions leave folders of their own.
    expect((await readdir(bench.work)).filter((name) => name.startsWith("sluice"))).toEqual([]);
    for (let tries = 0; tries < 50 && running().length > 0; tries++) await sleep(20);
    expect(running()).toEqual([]);

    function running(): string[] {
      const list = execFileSync("ps", ["-axeww", "-o", "command="], { encoding: "utf8" });
      return list
        .split("\n")
        .filter((line) => line.includes("SLUICE_SANDBOX=probe-") && line.includes(bench.work));
    }
  });

  it("runs with the options of every command, --proc, --dev and the filter included", async () => {
    const folder = await makeFolder(user);
    const wrapper = join(folder, "bwrap");
    const real = await findBwrap();
    await writeFile(
      wrapper,
      `#!/bin/sh\ntr '\\0' '\\n' < /proc/self/fd/6 >> ${folder}/log\nexec ${real} "$@"\n`,
    );
    await chmod(wrapper, 0o755);
    await chmod(folder, 0o777);
    const env = { PATH: `${folder}:${process.env["PATH"]}` };
    const argv = [...asUser(user), process.execPath, BIN, "doctor", "--json"];
    const ran = await bench.run([], { argv, env });
    expect(JSON.parse(ran.out)).toMatchObject({ defaultSandbox: "bwrap" });
    const options = execFileSync("cat", [join(folder, "log")], { encoding: "utf8" });
    for (const option of ["--proc", "--dev", "--seccomp", "--sync-fd", "--unshare-net"])
      expect(options).toContain(`${option}\n`);
  });
});

async function failingBwrap(folder: string): Promise<string> {
  const file = join(folder, "bwrap");
  await writeFile(file, "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n");
  await chmod(file, 0o755);
  return file;
}
