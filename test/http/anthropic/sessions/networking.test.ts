import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeWithBwrap } from "../../../sandbox/egress/lab.ts";
import { type AnthropicBench, openAnthropic } from "../anthropic-bench.ts";
import { makeSession, ofType, turn } from "../session-bench.ts";

describeWithBwrap("an environment's network", () => {
  let bench: AnthropicBench;
  let server: Server;
  let port = 0;
  beforeAll(async () => {
    bench = await openAnthropic();
    server = createServer((_, response) => response.end("the host's own\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ({ port } = server.address() as AddressInfo);
  });
  afterAll(async () => {
    await bench.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  /** The responses of a server on this machine to the agent, without the proxy and through it. */
  const fetched = async (networking: object | undefined): Promise<string> => {
    const config = networking && ({ type: "cloud", networking } as const);
    const environment = await bench.beta.environments.create({
      name: `network ${JSON.stringify(networking)} ${process.pid}`,
      ...(config && { config: config as never }),
    });
    const { id } = await makeSession(bench, { session: { environment_id: environment.id } });
    const url = `http://127.0.0.1:${port}/`;
    const shell = `curl -sS -m 5 ${url} 2>&1; curl -sS -m 5 --noproxy '' ${url} 2>&1; true`;
    const [result] = ofType(await turn(bench, id, { shell }), "agent.tool_result");
    return JSON.stringify(result?.content);
  };

  it.each([
    ["unrestricted", undefined],
    ["limited", { type: "limited" }],
  ])("that is %s does not lead to the machine that it runs on", async (_, networking) => {
    const said = await fetched(networking);
    expect(said).toMatch(new RegExp(`^.*curl: \\(7\\).*(may not reach 127.0.0.1:${port}|curl: \\(7\\))`));
    expect(said).not.toContain("the host's own");
  });

  it("reaches the hosts that the environment names", async () => {
    const said = await fetched({ type: "limited", allowed_hosts: [`127.0.0.1:${port}`] });
    expect(said.match(/the host's own/g)).toHaveLength(2);
  });
});
