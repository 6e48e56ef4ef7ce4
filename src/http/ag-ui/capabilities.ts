import type { AgentInfo } from "../../sessions/port.ts";

/** What a client may expect of this agent here, in the words of `AgentCapabilitiesSchema`. */
export function toCapabilities(
  { id, title, version, capabilities }: AgentInfo,
  here: { readonly isSandboxed: boolean; readonly speaksProto: boolean },
): object {
  const has = (name: string): boolean => capabilities[name] === true;
  return {
    identity: { name: title, type: id, ...(version === undefined ? {} : { version }), provider: "sluice" },
    transport: {
      streaming: true,
      websocket: false,
      httpBinary: here.speaksProto,
      pushNotifications: false,
      resumable: true,
    },
    tools: { supported: true, items: [], parallelCalls: true, clientProvided: true },
    output: { structuredOutput: false, supportedMimeTypes: ["text/plain"] },
    state: { snapshots: true, deltas: true, memory: true, persistentState: true },
    multiAgent: { supported: has("subagents"), delegation: has("subagents"), handoffs: false },
    reasoning: { supported: has("reasoning"), streaming: has("reasoning"), encrypted: false },
    multimodal: {
      input: { image: has("images"), audio: false, video: false, pdf: true, file: true },
      output: {},
    },
    execution: { codeExecution: true, sandboxed: here.isSandboxed },
    humanInTheLoop: { supported: true, approvals: true, interventions: true, feedback: false },
    custom: { sluice: capabilities },
  };
}
