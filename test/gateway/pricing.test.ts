import { calcPrice } from "@pydantic/genai-prices";
import { describe, expect, it } from "vitest";
import { createPricing, PRICES_VERSION, readOwn } from "../../src/gateway/pricing.ts";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const pricing = createPricing({ "my-model": { input: 2, output: 10, cache_read: 0.5 } }, { calcPrice });
const time = Date.parse("2026-11-01T00:00:00Z");
const at = (provider: string, model: string, usage: object) => pricing({ provider, model, usage, time });

describe("pricing", () => {
  it("states the version of the library that is installed", () => {
    const file = new URL("../../node_modules/@pydantic/genai-prices/package.json", import.meta.url);
    expect((JSON.parse(readFileSync(file, "utf8")) as { version: string }).version).toBe(PRICES_VERSION);
  });

  it("lets an own table precede, and prices each kind of token", () => {
    const usage = { input_tokens: 1_000_000, output_tokens: 100_000, cache_read_tokens: 2_000_000 };
    expect(at("openai", "my-model", usage)).toEqual({ costUsd: 2 + 1 + 1, table: "own" });
  });

  it("leaves a wrong price of the own table out, and keeps the others", () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-prices-"));
    const good = { input: 1, output: 2 };
    writeFileSync(join(folder, "p.json"), JSON.stringify({ good, none: null, half: { input: 1 } }));
    process.env["SLUICE_PRICES"] = join(folder, "p.json");
    expect(readOwn()).toEqual({ good });
    delete process.env["SLUICE_PRICES"];
    rmSync(folder, { recursive: true });
  });

  it("has no price for an unknown model, which is not the price 0", () => {
    expect(at("openai", "nobody-knows-it", { input_tokens: 5 })).toEqual({ table: "unknown" });
    expect(pricing({ provider: "openai", model: undefined, usage: {}, time })).toEqual({ table: "unknown" });
    expect(createPricing({}, undefined)({ provider: "openai", model: "gpt-5.5", usage: {}, time })).toEqual({
      table: "unknown",
    });
  });

  it("gives a sum of the prices of the parts", () => {
    const parts = [
      { input_tokens: 30_000 },
      { output_tokens: 4_000 },
      { cache_read_tokens: 20_000 },
      { cache_write_tokens: 7_000, cache_write_1h_tokens: 2_000 },
    ];
    const whole = Object.assign({}, ...parts) as object;
    for (const [provider, model] of [
      ["anthropic", "claude-opus-5"],
      ["anthropic", "claude-haiku-4-5"],
      ["openai", "gpt-5.5"],
      ["google", "gemini-2.5-pro"],
      ["xai", "grok-4.6"],
    ] as const) {
      const sum = parts
        .map((part) => at(provider, model, part).costUsd ?? Number.NaN)
        .reduce((a, b) => a + b);
      const { costUsd, table } = at(provider, model, whole);
      expect([model, table]).toEqual([model, "genai-prices"]);
      expect(costUsd).toBeCloseTo(sum, 10);
      expect(costUsd).toBeGreaterThan(0);
    }
  });
});
