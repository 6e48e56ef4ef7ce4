import { describe, expect, it } from "vitest";
import { CAPABILITIES } from "../../src/sandbox/capabilities.ts";
import { RemoteDockerProvider } from "../../src/sandbox/docker/remote/provider.ts";
import { defaultProviders } from "../../src/sandbox/index.ts";
import type { NetworkPolicy, SandboxProvider } from "../../src/sandbox/port.ts";

describe("the capabilities of sandboxes", () => {
  const root = "/nonexistent/sluice";
  const env = { HOME: root };
  const engine = { host: "tcp://192.0.2.1:2375", records: root, root, env };
  const providers: readonly [string, SandboxProvider][] = [
    ...defaultProviders({ root }).map((provider): [string, SandboxProvider] => [
      provider.id === "ssh" ? "ssh://user@host" : provider.id,
      provider.id === "ssh" ? provider.named!("ssh://user@192.0.2.1:9")! : provider,
    ]),
    ["docker, with DOCKER_HOST elsewhere", new RemoteDockerProvider(engine)],
  ];

  it("has every provider, and no other", () => {
    expect(providers.map(([name]) => name).toSorted()).toEqual(
      CAPABILITIES.map(({ name }) => name).toSorted(),
    );
  });

  // Another machine refuses what it cannot keep before anything is asked there.
  it.each(providers.filter(([, { hasPrograms }]) => hasPrograms))(
    "are those of %s",
    async (name, provider) => {
      const told = CAPABILITIES.find((row) => row.name === name)!;
      expect(provider.isolated ?? true).toBe(told.isolated);
      const refusalOf = async (spec: {
        network?: NetworkPolicy;
        directory?: string;
        image?: string;
      }): Promise<boolean> => {
        const given = told.image ? { image: "image:1" } : {};
        const error = await provider.check!({ ...given, ...spec }).catch((failure: unknown) => failure);
        return (error as { code?: string } | undefined)?.code === "capability_missing";
      };
      // What is not refused would be asked of a machine, which is not there.
      if (told.network === "full") expect(await refusalOf({ network: { mode: "none" } })).toBe(true);
      if (told.network === "full" || told.network === "none")
        expect(await refusalOf({ network: { mode: "allow", hosts: ["example.com"] } })).toBe(true);
      if (told.network !== "policy")
        expect(await refusalOf({ network: { mode: "allow", hosts: ["example.com:22"] } })).toBe(true);
      expect(await refusalOf({ directory: "/tmp" })).toBe(!told.directory);
      if (!told.image) expect(await refusalOf({ image: "image:1" })).toBe(true);
    },
  );
});
