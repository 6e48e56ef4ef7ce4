import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createE2bProvider } from "../../../src/sandbox/e2b/provider.ts";
import { makeFolder, onCleanup } from "../remote/workbench.ts";

const key = process.env["E2B_API_KEY"] ?? "";
const reason = key === "" ? " (not run: E2B_API_KEY is not set)" : "";

/** It costs money, so it needs somebody's key: a run without one is no failure, in CI neither. */
describe.skipIf(key === "")(`e2b itself${reason}`, { timeout: 300_000 }, () => {
  it("runs a process through another server, a sleep and a kill of the runner, and has no network if asked", async () => {
    const records = await makeFolder();
    const id = `sbx_live_${randomBytes(6).toString("hex")}`;
    const provider = createE2bProvider({ records, timeoutMs: 300_000 });
    const sandbox = await provider.create(
      { id, session: "live", network: { mode: "allow", hosts: ["example.com"] } },
      { spools: "", epoch: 1 },
    );
    onCleanup(() => sandbox.destroy());
    const look = "fetch(process.argv[1]).then(() => console.log('through'), () => console.log('refused'))";
    const reach = async (url: string): Promise<string> =>
      (await sandbox.exec(`node -e "${look}" ${url}`)).stdout.trim();
    expect(await reach("https://example.com")).toBe("through");
    expect(await reach("https://example.org")).toBe("refused");

    const script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); sleep 0.1; done";
    const launch = { argv: ["/bin/sh", "-c", script], env: {} };
    await sandbox.processes.start({ name: "1", launch, streams: "private" });
    await sandbox.pause!();
    expect(await sandbox.state!()).toBe("asleep");

    const again = (await createE2bProvider({ records }).connect(id, { spools: "", epoch: 2 }))!;
    await again.resume!();
    await again.exec("pkill -9 -f serve-edge").catch(() => {});
    await sleep(1_000);
    const spool = (await again.processes.open("1"))!;
    const lines: string[] = [];
    for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(120_000) })) {
      lines.push(...batch.lines.map(({ text }) => text));
      if (batch.exit) break;
    }
    expect(lines).toEqual(Array.from({ length: 200 }, (_, n) => String(n)));
    await again.destroy();
    expect(await createE2bProvider({ records }).connect(id)).toBeUndefined();
  });
});
