import { execFile, spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { createDaytonaProvider } from "../../../src/sandbox/daytona/provider.ts";
import { toDaytonaNetwork } from "../../../src/sandbox/daytona/vendor.ts";
import type { Sandbox, SandboxProvider } from "../../../src/sandbox/port.ts";
import { createVercelProvider } from "../../../src/sandbox/vercel/provider.ts";
import { toVercelNetwork } from "../../../src/sandbox/vercel/vendor.ts";
import { expectEverythingOnce } from "../remote/matrix.ts";
import { makeFolder } from "../remote/workbench.ts";
import { startDaytona } from "./daytona-emulator.ts";
import { processTexts } from "./machines.ts";
import type { VendorServer } from "./vendor-server.ts";
import { startVercel } from "./vercel-emulator.ts";

const claim = (epoch: number) => ({ spools: "", epoch });

interface Opened {
  readonly vendor: VendorServer & { readonly key: string };
  /** The provider as another server has it; these variables differ. */
  open(env?: Record<string, string>): SandboxProvider;
}

/** Vendors that keep the files of a machine through a stop, and not its processes. */
const VENDORS: Record<string, { open: () => Promise<Opened>; keyName: string }> = {
  vercel: {
    keyName: "VERCEL_TOKEN",
    open: async () => {
      const [vendor, records] = [await startVercel(), await makeFolder()];
      const { env, fetch } = vendor;
      return { vendor, open: (given) => createVercelProvider({ records, fetch, env: { ...env, ...given } }) };
    },
  },
  daytona: {
    keyName: "DAYTONA_API_KEY",
    open: async () => {
      const [vendor, records] = [await startDaytona(), await makeFolder()];
      return {
        vendor,
        open: (given) => createDaytonaProvider({ records, env: { ...vendor.env, ...given } }),
      };
    },
  },
};

for (const [id, { open: start, keyName }] of Object.entries(VENDORS))
  describe(`${id}, by its own SDK against an emulator`, { timeout: 180_000 }, () => {
    it("has every line and every input once while connections are cut, the runner and the server are killed", async () => {
      const { vendor, open } = await start();
      const sandbox = await open().create({ id: "sbx_count", session: "s" }, claim(1));
      const [machine] = vendor.machines.all();
      let last: Sandbox = sandbox;
      await expectEverythingOnce(sandbox, [
        () => vendor.cut(),
        () => vendor.machines.runners(machine!).forEach((pid) => process.kill(pid, "SIGKILL")),
        async () => {
          vendor.fail(503);
          await expect(open().connect("sbx_count", claim(2))).rejects.toMatchObject({
            code: "sandbox_unreachable",
          });
          vendor.fail(undefined);
          return (last = (await open().connect("sbx_count", claim(2)))!);
        },
      ]);
      const secrets = [vendor.key, String(vendor.dials[0]?.headers["sluice-token"])];
      expect(secrets[1]).toMatch(/^[\w-]{43}$/);
      expect(processTexts(machine!)).not.toContain(vendor.key);
      for (const secret of secrets)
        expect(spawnSync("grep", ["-rlaF", "--", secret, machine!.home]).stdout.toString()).toBe("");
      await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "fenced" });
      await last.destroy();
      expect(vendor.machines.all()).toEqual([]);
      expect(await open().list!()).toEqual([]);
    });

    it("is unreachable while the vendor is, keeps its files through a stop, and is gone by the API's word alone", async () => {
      const { vendor, open } = await start();
      const made = await open().create({ id: "sbx_dark" }, claim(1));
      await made.files.write("kept.txt", "kept");
      expect(made.pause).toBeUndefined();
      for (const how of ["down", 404, 401] as const) {
        vendor.fail(how);
        const other = open();
        await expect(other.connect("sbx_dark"), String(how)).rejects.toMatchObject({
          code: "sandbox_unreachable",
        });
        expect(await made.state!()).toBe("unreachable");
      }
      vendor.fail(undefined);
      const [machine] = vendor.machines.all();
      const launch = { argv: ["/bin/sh", "-c", "echo begun; sleep 600"], env: {} };
      const spool = await made.processes.start({ name: "1", launch, streams: "private" });
      await expect.poll(() => spool.length()).toBeGreaterThan(0);
      await vendor.expire(machine!);
      const found = (await open().connect("sbx_dark", claim(2)))!;
      expect(await found.state!()).toBe("asleep");
      await expect(found.exec("true")).rejects.toMatchObject({ code: "sandbox_unreachable" });
      expect(machine!.state).toBe("paused");
      await found.touch!();
      expect(Buffer.from(await found.files.read("kept.txt")).toString()).toBe("kept");
      // The output before the stop is there, and so is the end of the process.
      const lines: string[] = [];
      const signal = AbortSignal.timeout(60_000);
      for await (const batch of (await found.processes.open("1"))!.follow({ from: 0, signal })) {
        lines.push(...batch.lines.map(({ text }) => text));
        if (batch.exit) lines.push(JSON.stringify(batch.exit));
      }
      expect(lines).toEqual(["begun", '{"lost":true}']);
      await vendor.machines.remove(machine!.id);
      expect(await found.state!()).toBe("gone");
      expect(await open().connect("sbx_dark")).toBeUndefined();
    });

    it("finds the machine of a lost answer, and refuses what it cannot keep, with what to do", async () => {
      const { vendor, open } = await start();
      vendor.loseCreation();
      // An SDK may repeat it by itself.
      await open()
        .create({ id: "sbx_lost", session: "s" })
        .catch((error: unknown) => expect(error).toMatchObject({ code: "sandbox_unreachable" }));
      const sandbox = await open().create({ id: "sbx_lost", session: "s" }, claim(1));
      expect(vendor.machines.all()).toHaveLength(1);
      expect((await sandbox.exec("echo here")).stdout).toBe("here\n");
      await sandbox.destroy();

      const provider = open();
      expect(await provider.detect()).toEqual({ available: true });
      const network = { mode: "allow", hosts: ["example.com:8080"] } as const;
      await expect(provider.check!({ network })).rejects.toMatchObject({
        code: "capability_missing",
        message: expect.stringContaining(`${id} cannot allow example.com:8080`),
      });
      await expect(provider.check!({ directory: "/tmp" })).rejects.toThrow(/Leave the directory out/);
      await expect(provider.create({ id: "x", image: "missing" })).rejects.toMatchObject({
        code: "invalid_request",
      });
      expect(await open({ [keyName]: "" }).detect()).toMatchObject({
        available: false,
        reason: expect.stringContaining(keyName),
        remedy: expect.stringContaining(keyName),
      });
      await expect(open({ [keyName]: "wrong" }).check!({})).rejects.toMatchObject({
        code: "permission_denied",
      });
      expect(vendor.machines.all()).toEqual([]);
    });
  });

it.each([
  [
    "vercel",
    "@vercel/sandbox",
    "createVercelProvider",
    { VERCEL_TOKEN: "t", VERCEL_TEAM_ID: "t", VERCEL_PROJECT_ID: "p" },
  ],
  ["daytona", "@daytona/sdk", "createDaytonaProvider", { DAYTONA_API_KEY: "k" }],
])("%s says how to get its package, which is optional", async (id, name, create, env) => {
  const built = resolve(import.meta.dirname, `../../../dist/sandbox/${id}/index.js`);
  const hooks = `export const resolve = (name, context, next) => { if (name === "${name}") throw new Error("not found"); return next(name, context); }`;
  const program = `import { register } from "node:module";
register("data:text/javascript,${encodeURIComponent(hooks)}");
const provider = await import(${JSON.stringify(built)});
console.log(JSON.stringify(await provider.${create}({ records: "/nonexistent" }).detect()));`;
  const given = { env: { ...process.env, ...env } };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", program],
    given,
  );
  expect(JSON.parse(stdout)).toEqual({
    available: false,
    reason: `The sandbox ${id} needs the package ${name}. Run: npm install ${name}`,
    remedy: `npm install ${name}`,
  });
});

it("maps networks to the vendors' own rules", () => {
  const hosts = ["example.com", "*.npmjs.org"];
  expect(toVercelNetwork(undefined)).toBe("allow-all");
  expect(toVercelNetwork({ mode: "allow", hosts: ["*"] })).toBe("allow-all");
  expect(toVercelNetwork({ mode: "loopback" })).toBe("deny-all");
  expect(toVercelNetwork({ mode: "allow", hosts })).toEqual({ allow: hosts });
  expect(toDaytonaNetwork({ mode: "full" })).toEqual({});
  expect(toDaytonaNetwork({ mode: "none" })).toEqual({ networkBlockAll: true });
  expect(toDaytonaNetwork({ mode: "allow", hosts })).toEqual({ domainAllowList: hosts.join(",") });
});
