import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { awaitReady } from "../../src/sandbox/bwrap/resident.ts";

// A bwrap that dies at its start as often as the file says. The bench finds it at its import.
const folder = mkdtempSync(join(tmpdir(), "sluice-dying-bwrap-"));
const deaths = join(folder, "deaths");
writeFileSync(
  join(folder, "bwrap"),
  `#!/bin/sh
left=$(cat "${deaths}" 2> /dev/null || echo 0)
if [ "$left" -gt 0 ]; then echo $((left - 1)) > "${deaths}"; kill -9 $$; fi
exec /usr/bin/bwrap "$@"
`,
  { mode: 0o755 },
);
chmodSync(folder, 0o777);
process.env["PATH"] = `${folder}${delimiter}${process.env["PATH"]}`;
const { describeBwrap, makeSandbox } = await import("./bwrap-bench.ts");

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function dieAtStart(times: number): void {
  writeFileSync(deaths, String(times));
  chmodSync(deaths, 0o666);
}

it("a resident that ends at its start is not waited for, although another process holds its streams", async () => {
  const child = spawn("/bin/sh", ["-c", "sleep 600 & echo $! >&2; kill -9 $$"], { stdio: "pipe" });
  const said = await awaitReady(child).catch((error: Error) => error.message);
  // The signal proves that the holder of the streams still lives.
  expect(process.kill(Number(said), "SIGKILL")).toBe(true);
});

describeBwrap("a command whose sandbox has no network yet", () => {
  it("runs, although the network's holder is killed at its start", async () => {
    const { sandbox } = await makeSandbox();
    dieAtStart(2);
    expect((await sandbox.exec("echo there")).stdout).toBe("there\n");
    expect(existsSync(deaths)).toBe(true);
  });

  it("fails with the reason where the holder never starts", async () => {
    const { sandbox } = await makeSandbox();
    dieAtStart(1_000);
    await expect(sandbox.exec("echo there")).rejects.toThrow("could not be given its network");
    dieAtStart(0);
    expect((await sandbox.exec("echo there")).stdout).toBe("there\n");
  });
});
