import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { HttpAgent, HttpAgentConfig } from "ag-ui-client-0";
import type { Client } from "../../support/clients.ts";

/** CopilotKit's own runtime in front of our endpoint, and the client that its pages run. */
export interface CopilotKit {
  readonly url: string;
  openPage(threadId: string, tools?: readonly PageTool[]): CopilotPage;
  close(): Promise<void>;
}

/** One page: it keeps its own messages, and reaches the agent through the runtime alone. */
export interface CopilotPage {
  readonly agent: HttpAgent;
  readonly errors: readonly string[];
  send(text: string): Promise<void>;
  resume(interruptId: string, payload: unknown): Promise<void>;
  /** As a reopened page does. */
  connect(): Promise<void>;
  stop(): void;
}

export interface PageTool {
  readonly name: string;
  readonly parameters: unknown;
  handler(args: never): Promise<unknown>;
}

const BASE = "/api/copilotkit";

/** The runtime's agents are `HttpAgent`s of the version that it brings. */
export async function openCopilotKit(client: Client, agent: HttpAgentConfig): Promise<CopilotKit> {
  process.env["COPILOTKIT_TELEMETRY_DISABLED"] = "true";
  const { HttpAgent: Agent } = (await client.load("@ag-ui/client")) as AgUiModule;
  const { CopilotRuntime } = (await client.load("@copilotkit/runtime/v2")) as RuntimeModule;
  const { createCopilotNodeListener } = (await client.load("@copilotkit/runtime/v2/node")) as NodeModule;
  const core = (await client.load("@copilotkit/core")) as CoreModule;
  const runtime = new CopilotRuntime({ agents: { default: new Agent(agent) } });
  const server = createServer(createCopilotNodeListener({ runtime, basePath: BASE }));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}`;
  return {
    url,
    openPage: (threadId, tools = []) => openPage(core, { url, threadId, tools }),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function openPage(
  { CopilotKitCore, ProxiedCopilotRuntimeAgent }: CoreModule,
  { url, threadId, tools }: { url: string; threadId: string; tools: readonly PageTool[] },
): CopilotPage {
  const agentId = "default";
  const agent = new ProxiedCopilotRuntimeAgent({ runtimeUrl: url, agentId, threadId, transport: "rest" });
  const core = new CopilotKitCore({ runtimeUrl: url, agents__unsafe_dev_only: { [agentId]: agent } });
  const errors: string[] = [];
  core.subscribe({ onError: ({ error }) => void errors.push(error.message) });
  for (const tool of tools) core.addTool(tool);
  return {
    agent,
    errors,
    async send(text) {
      agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
      await core.runAgent({ agent });
    },
    async resume(interruptId, payload) {
      await core.runAgent({ agent, resume: [{ interruptId, status: "resolved", payload }] });
    },
    async connect() {
      await core.connectAgent({ agent });
    },
    stop: () => core.stopAgent({ agent }),
  };
}

/** The used types of packages that are no dependencies of ours. */
interface AgUiModule {
  readonly HttpAgent: new (config: HttpAgentConfig) => HttpAgent;
}
interface RuntimeModule {
  readonly CopilotRuntime: new (options: { agents: Record<string, HttpAgent> }) => object;
}
interface NodeModule {
  createCopilotNodeListener(options: { runtime: object; basePath: string }): RequestListener;
}
interface CoreModule {
  readonly CopilotKitCore: new (options: object) => Core;
  readonly ProxiedCopilotRuntimeAgent: new (options: object) => HttpAgent;
}
interface Core {
  addTool(tool: PageTool): void;
  subscribe(subscriber: { onError(event: { error: Error }): void }): unknown;
  runAgent(params: { agent: HttpAgent; resume?: readonly object[] }): Promise<unknown>;
  connectAgent(params: { agent: HttpAgent }): Promise<unknown>;
  stopAgent(params: { agent: HttpAgent }): void;
}
