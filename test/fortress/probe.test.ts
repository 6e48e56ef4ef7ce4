import { readdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script } from "../cli/workbench.ts";
import { SERVER_USERS } from "./fortressBench.ts";
import { Elsewhere } from "./machines.ts";

describe.each(SERVER_USERS)("in a pod with a masked /proc, under $name", (user) => {
  let bench: Elsewhere;
  beforeEach(() => {
    bench = new Elsewhere("masked /proc", user);
  });
  afterEach(() => bench.close());

  it("doctor says that bwrap does not work, why, and what to do", async () => {
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
