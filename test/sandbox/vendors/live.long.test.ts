import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createDaytonaProvider } from "../../../src/sandbox/daytona/provider.ts";
import type { SandboxProvider } from "../../../src/sandbox/port.ts";
import { createVercelProvider } from "../../../src/sandbox/vercel/provider.ts";
import { expectEverythingOnce } from "../remote/matrix.ts";
import { makeFolder, onCleanup } from "../remote/workbench.ts";

const VENDORS: readonly { id: string; key: string; open: (records: string) => SandboxProvider }[] = [
  { id: "daytona", key: "DAYTONA_API_KEY", open: (records) => createDaytonaProvider({ records }) },
  { id: "vercel", key: "VERCEL_TOKEN", open: (records) => createVercelProvider({ records }) },
];

for (const { id, key, open } of VENDORS) {
  const isSet = Boolean(process.env[key]);
  const reason = isSet ? "" : ` (not run: ${key} is not set)`;

  /** It costs money, so it needs somebody's key: a run without one is no failure, in CI neither. */
  describe.skipIf(!isSet)(`${id} itself${reason}`, { timeout: 300_000 }, () => {
    it("runs a process through another server and a kill of the runner, and reaches the allowed host alone", async () => {
      const records = await makeFolder();
      const name = `sbx_live_${randomBytes(6).toString("hex")}`;
      const network = { mode: "allow", hosts: ["example.com"] } as const;
      const sandbox = await open(records).create(
        { id: name, session: "live", network },
        { spools: "", epoch: 1 },
      );
      onCleanup(() => sandbox.destroy());
      const look = "fetch(process.argv[1]).then(() => console.log('through'), () => console.log('refused'))";
      const reach = async (url: string): Promise<string> =>
        (await sandbox.exec(`node -e "${look}" ${url}`)).stdout.trim();
      expect(await reach("https://example.com")).toBe("through");
      expect(await reach("https://example.org")).toBe("refused");
      await expectEverythingOnce(sandbox, [
        () =>
          sandbox.exec("pkill -9 -f serve-edge").then(
            () => {},
            () => {},
          ),
        async () => (await open(records).connect(name, { spools: "", epoch: 2 }))!,
      ]);
      const last = (await open(records).connect(name, { spools: "", epoch: 3 }))!;
      await last.destroy();
      expect(await open(records).connect(name)).toBeUndefined();
    });
  });
}
