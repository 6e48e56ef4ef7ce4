import { BadRequestError, ConflictError, NotFoundError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import { makeSession } from "../session-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const packages = { type: "packages", apt: [], cargo: [], gem: [], go: [], npm: [], pip: [] };

describe("B5: an environment", () => {
  it("is cloud by default, with every default resolved", async () => {
    const made = await bench.beta.environments.create({ name: "plain" });
    expect(made).toEqual({
      id: expect.stringMatching(/^env_/),
      type: "environment",
      name: "plain",
      description: null,
      config: { type: "cloud", networking: { type: "unrestricted" }, packages },
      metadata: {},
      scope: "organization",
      archived_at: null,
      created_at: expect.any(String),
      updated_at: made.created_at,
    });
    expect(await bench.beta.environments.retrieve(made.id)).toEqual(made);
  });

  it("has no further config if self-hosted", async () => {
    const made = await bench.beta.environments.create({ name: "own", config: { type: "self_hosted" } });
    expect(made.config).toEqual({ type: "self_hosted" });
  });

  it("is closed by default if limited, and keeps fields that an update leaves out", async () => {
    const { id, config } = await bench.beta.environments.create({
      name: "limited",
      config: { type: "cloud", networking: { type: "limited" } },
    });
    const networking = {
      type: "limited",
      allowed_hosts: [],
      allow_mcp_servers: false,
      allow_package_managers: false,
    };
    expect(config).toEqual({ type: "cloud", networking, packages });
    const opened = await bench.beta.environments.update(id, {
      config: {
        type: "cloud",
        networking: { type: "limited", allow_package_managers: true, allowed_hosts: ["a.example"] },
        packages: { pip: ["numpy==2"] },
      },
    });
    const kept = await bench.beta.environments.update(id, {
      config: {
        type: "cloud",
        networking: { type: "limited", allow_mcp_servers: true },
        packages: { npm: ["x"] },
      },
    });
    expect(opened.config).toMatchObject({
      networking: { allow_mcp_servers: false },
      packages: { pip: ["numpy==2"] },
    });
    expect(kept.config).toEqual({
      type: "cloud",
      networking: {
        type: "limited",
        allowed_hosts: ["a.example"],
        allow_mcp_servers: true,
        allow_package_managers: true,
      },
      packages: { ...packages, pip: ["numpy==2"], npm: ["x"] },
    });
  });

  it("refuses packages without allow_package_managers", async () => {
    const config = {
      type: "cloud" as const,
      networking: { type: "limited" as const },
      packages: { apt: ["jq"] },
    };
    const { error } = await failureOf(bench, () => bench.beta.environments.create({ name: "none", config }));
    expect(error).toBeInstanceOf(BadRequestError);
  });

  it("cannot change its type", async () => {
    const { id } = await bench.beta.environments.create({ name: "type" });
    const { error } = await failureOf(bench, () =>
      bench.beta.environments.update(id, { config: { type: "self_hosted" } }),
    );
    expect([error.status, error.errorCode]).toEqual([400, "invalid_config_type_change"]);
  });

  it("has a unique name until it is archived", async () => {
    const { id } = await bench.beta.environments.create({ name: "mine" });
    const { error, requests } = await failureOf(bench, () =>
      bench.beta.environments.create({ name: "mine" }),
    );
    expect(error).toBeInstanceOf(ConflictError);
    expect(requests).toBe(1);
    const archived = await bench.beta.environments.archive(id);
    expect(archived.archived_at).not.toBeNull();
    const again = await bench.beta.environments.create({ name: "mine" });
    expect(again.id).not.toBe(id);
    const refused = await failureOf(bench, () => bench.beta.environments.update(id, { name: "x" }));
    expect([refused.error.status, refused.error.errorCode]).toEqual([400, "environment_archived"]);
    const ids = new Set((await collect(bench.beta.environments.list())).map((environment) => environment.id));
    expect([ids.has(id), ids.has(again.id)]).toEqual([false, true]);
  });

  it("patches its metadata, and an empty value or null removes a key", async () => {
    const { id } = await bench.beta.environments.create({
      name: "meta",
      metadata: { a: "1", b: "2", c: "3" },
    });
    const { metadata, description } = await bench.beta.environments.update(id, {
      metadata: { a: null, b: "", d: "4" },
      description: "",
    });
    expect([metadata, description]).toEqual([{ c: "3", d: "4" }, ""]);
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`m${n}`, "x"]));
    const { error } = await failureOf(bench, () => bench.beta.environments.update(id, { metadata: many }));
    expect(error.errorCode).toBe("invalid_metadata");
  });

  it.each([
    ["https://api.example.com", "it is a URL"],
    ["api.example.com/v1", "it has a path"],
    ["10.0.0.0/8", "it has a path or a mask"],
    ["a.*.example.com", "a wildcard stands only at the beginning"],
    ["localhost", "named with a port"],
  ])("cannot be open to %s, which is said when it is made and when it is changed", async (host, why) => {
    const config = {
      type: "cloud" as const,
      networking: { type: "limited" as const, allowed_hosts: [host] },
    };
    const name = `open to ${host}`;
    const made = await failureOf(bench, () => bench.beta.environments.create({ name, config }));
    expect(made.error).toBeInstanceOf(BadRequestError);
    expect(made.error.message).toContain("config.networking.allowed_hosts");
    expect(made.error.message).toContain(why);
    const { id } = await bench.beta.environments.create({ name });
    const changed = await failureOf(bench, () => bench.beta.environments.update(id, { config }));
    expect(changed.error.message).toContain(why);
  });

  it("cannot be deleted while a session uses it, and its sessions survive its archiving", async () => {
    const { id, environmentId } = await makeSession(bench);
    const { error, requests } = await failureOf(bench, () => bench.beta.environments.delete(environmentId));
    expect(error).toBeInstanceOf(BadRequestError);
    expect([error.message.includes(id), requests]).toEqual([true, 1]);
    await bench.beta.sessions.archive(id);
    await expect(bench.beta.environments.delete(environmentId)).rejects.toMatchObject({ status: 400 });
    await bench.beta.environments.archive(environmentId);
    await bench.beta.sessions.delete(id);
    expect(await bench.beta.environments.delete(environmentId)).toMatchObject({ id: environmentId });
  });

  it("can be deleted after another dialect deleted its session", async () => {
    const { id, environmentId } = await makeSession(bench);
    await bench.test.engine.remove(id);
    expect(await bench.beta.environments.delete(environmentId)).toMatchObject({ id: environmentId });
  });

  it("is gone after its deletion", async () => {
    const { id } = await bench.beta.environments.create({ name: "gone" });
    expect(await bench.beta.environments.delete(id)).toEqual({ id, type: "environment_deleted" });
    const { error, requests } = await failureOf(bench, () => bench.beta.environments.retrieve(id));
    expect(error).toBeInstanceOf(NotFoundError);
    expect([error.errorCode, requests]).toEqual(["environment_not_found", 1]);
  });
});
