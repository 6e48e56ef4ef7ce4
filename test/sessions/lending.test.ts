import { describe, expect, it } from "vitest";
import { permits } from "../../src/sandbox/index.ts";
import type { Loan } from "../../src/sessions/index.ts";
import { ofType, openEngine, readAll, runTurn, script, waitFor } from "../support/engine.ts";

const VALUE = "lent-value-71f0";
const LOAN: Loan = {
  lending: { url: "http://127.0.0.1:9/s", token: "0".repeat(64) },
  secrets: [
    {
      name: "LENT",
      placeholder: "SLUICE_SECRET_1",
      value: VALUE,
      header: true,
      body: false,
      details: { credential_id: "vcrd_1", vault_id: "vlt_1" },
    },
  ],
};

describe("a secret that is lent to a session", () => {
  it("has no variable where nothing could replace it, which one event says; its value is in no event", async () => {
    const test = await openEngine({
      lend: async () => LOAN,
      defaultSandbox: "local",
      limits: { idleMs: 50, gentleMs: 500 },
    });
    try {
      await test.engine.create("s", { agent: "scripted" });
      await runTurn(test, "s", script({ shell: "env; printf 'lent-value-%s' 71f0" }));
      await waitFor(test.log, "s", "process.ended");
      await runTurn(test, "s", script({ shell: "env" }));
      const events = await readAll(test.log, "s");
      expect(ofType(events, "process.started")).toHaveLength(2);
      expect(ofType(events, "error").map(({ data }) => data)).toEqual([
        {
          code: "credential_host_unreachable",
          message: expect.stringContaining("in a local sandbox"),
          details: { credential_id: "vcrd_1", vault_id: "vlt_1" },
        },
      ]);
      const text = JSON.stringify(events);
      expect(text).toContain("[redacted:LENT]");
      expect(text).not.toContain(VALUE);
      expect(text).not.toContain("LENT=");
    } finally {
      await test.close();
    }
  });
});

describe("an allow list", () => {
  it.each([
    [["*"], "api.test", true],
    [["api.test:8443"], "API.test", true],
    [["*.test"], "api.test", true],
    [["*.test"], "test", false],
    [["other.test"], "api.test", false],
    [["*.test"], "*.api.test", true],
    [["a.api.test"], "*.api.test", true],
    [["*.api.test"], "*.api.test", true],
    [["api.test"], "*.api.test", false],
    [["127.0.0.1:80"], "127.0.0.1", true],
    [[], "api.test", false],
  ])("%j leads to %s: %s", (allowed, host, isSo) => {
    expect(permits(allowed, host)).toBe(isSo);
  });
});
