import { describe, expect, it } from "vitest";
import { toE2bNetwork } from "../../../src/sandbox/e2b/network.ts";
import { createE2bProvider } from "../../../src/sandbox/e2b/provider.ts";
import type { SandboxProvider } from "../../../src/sandbox/port.ts";
import { makeFolder } from "../remote/workbench.ts";
import { startE2b } from "./e2b-emulator.ts";
import { openE2b } from "./e2b-workbench.ts";

const claim = (epoch: number) => ({ spools: "", epoch });

describe("e2b, by its own SDK against an emulator", { timeout: 180_000 }, () => {
  it("keeps networks by E2B's own rules, and refuses by name what those cannot keep", async () => {
    const { e2b, provider, reopen } = await openE2b();
    const kept: [Parameters<typeof toE2bNetwork>[0], object][] = [
      [undefined, {}],
      [{ mode: "full" }, {}],
      [{ mode: "allow", hosts: ["*"] }, {}],
      [{ mode: "none" }, { denyOut: ["0.0.0.0/0"] }],
      [{ mode: "allow", hosts: [] }, { denyOut: ["0.0.0.0/0"] }],
      [
        { mode: "allow", hosts: ["example.com", "*.npmjs.org"] },
        { denyOut: ["0.0.0.0/0"], allowOut: ["example.com", "*.npmjs.org"] },
      ],
    ];
    for (const [network, mapped] of kept) expect(toE2bNetwork(network)).toEqual(mapped);
    const none = { mode: "none" } as const;
    const sandbox = await provider.create({ id: "sbx_net", image: "agents", network: none }, claim(1));
    expect(e2b.machines.all()[0]?.request).toMatchObject({
      templateID: "agents",
      autoPause: true,
      network: { denyOut: ["0.0.0.0/0"], allowPublicTraffic: false },
    });
    await sandbox.destroy();
    for (const host of [
      "example.com:8080",
      "127.0.0.1",
      "localhost:80",
      "::1",
      "a b.com",
      "*.com.",
      "10.0.0.0/8",
    ])
      await expect(
        provider.check!({ network: { mode: "allow", hosts: [host] } }),
        host,
      ).rejects.toMatchObject({
        code: "capability_missing",
        message: expect.stringContaining("e2b cannot allow"),
      });
    await expect(
      provider.check!({ network: { mode: "allow", hosts: [], private: ["db.corp"] } }),
    ).rejects.toMatchObject({ code: "capability_missing" });
    await expect(provider.check!({ directory: "/tmp" })).rejects.toThrow(/Leave the directory out/);
    await expect(provider.create({ id: "x", image: "missing" })).rejects.toThrow(
      /template 'missing' not found/,
    );

    const withKey = (key: string): SandboxProvider =>
      createE2bProvider({ records: "/nonexistent", env: { ...e2b.env, E2B_API_KEY: key } });
    expect(await withKey("").detect()).toMatchObject({
      available: false,
      reason: expect.stringContaining("E2B_API_KEY"),
      remedy: expect.stringContaining("E2B_API_KEY"),
    });
    await expect(withKey("e2b_wrong").check!({})).rejects.toMatchObject({ code: "permission_denied" });
    expect(await reopen().detect()).toEqual({ available: true });
    expect(e2b.machines.all()).toEqual([]);
  });

  it("does not take a sandbox of another cloud for gone", async () => {
    const [one, two, records] = [await startE2b(), await startE2b(), await makeFolder()];
    await createE2bProvider({ records, env: one.env }).create({ id: "sbx_where" }, claim(1));
    const other = createE2bProvider({ records, env: two.env });
    await expect(other.connect("sbx_where")).rejects.toMatchObject({ code: "sandbox_unreachable" });
    await expect(other.create({ id: "sbx_where" })).rejects.toMatchObject({ code: "sandbox_unreachable" });
    expect(two.machines.all()).toEqual([]);
  });
});
