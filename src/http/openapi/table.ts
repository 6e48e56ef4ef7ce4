import type { z } from "zod";
import { type ErrorCode, ERRORS } from "../../contract/index.ts";
import * as agents from "../../dialects/anthropic/answers/agents.ts";
import * as documents from "../../dialects/anthropic/answers/documents.ts";
import {
  SentEvent,
  SessionError,
  SessionEvent,
  StreamEvent,
} from "../../dialects/anthropic/answers/events.ts";
import * as sessions from "../../dialects/anthropic/answers/sessions.ts";
import { MessageBlock, ResultBlock, SendEvents, TextBlock } from "../../dialects/anthropic/parse.ts";
import { CreateAgent, UpdateAgent } from "../../dialects/anthropic/resources/agent.ts";
import { CreateEnvironment, UpdateEnvironment } from "../../dialects/anthropic/resources/environment.ts";
import {
  CreateSession,
  FileResourceParams,
  UpdateSession,
} from "../../dialects/anthropic/resources/session.ts";
import { ToolParams } from "../../dialects/anthropic/resources/tools.ts";
import { CreateCredential, UpdateCredential } from "../../dialects/anthropic/resources/vault.ts";
import { RunInput } from "../../dialects/ag-ui/parse.ts";
import { AgUiCapabilities, AgUiFrame, AgUiThread, Interrupt } from "../../dialects/ag-ui/schemas.ts";
import { Dispatch } from "../../dialects/ndjson/parse.ts";
import { NdjsonLine } from "../../dialects/ndjson/line.ts";
import { agUiOperations } from "../ag-ui/operations.ts";
import { toEnvelopeStatus } from "../anthropic/dialect.ts";
import { agentOperations, environmentOperations } from "../anthropic/operations/agents.ts";
import { fileOperations, skillOperations } from "../anthropic/operations/documents.ts";
import * as sessionTables from "../anthropic/operations/sessions.ts";
import { credentialOperations, vaultOperations } from "../anthropic/operations/vaults.ts";
import { callbackOperations, workOperations } from "../anthropic/operations/work.ts";
import { historyOperations } from "../ndjson/history.ts";
import * as ndjson from "../ndjson/responses.ts";
import { resultOperations } from "../ndjson/results.ts";
import { runOperations } from "../ndjson/runs.ts";
import type { Operation } from "../operation.ts";
import { operations, universalSchemas } from "../universal/openapi.ts";

/** A dialect in the document. */
export interface DocumentedDialect {
  readonly operations: Readonly<Record<string, Operation>>;
  /** Schemas that have a name in the document. */
  readonly schemas: Readonly<Record<string, z.ZodType>>;
  /** The names of the security schemes; each of them is enough. */
  readonly security: readonly string[];
  /** The body of an error. */
  readonly error: { readonly mime: string; readonly schema: string };
  /** Errors of every operation that needs a token. */
  readonly commonErrors: readonly ErrorCode[];
  statusOf(code: ErrorCode): number;
}

const COMMON = ["token_invalid", "permission_denied"] as const;
const statusOf = (code: ErrorCode): number => ERRORS[code].status;
const problem = { mime: "application/problem+json", schema: "Problem" };

/** Every operation of the server, by dialect, in the order of the document. */
export const DIALECTS: readonly DocumentedDialect[] = [
  {
    operations: toTable(operations),
    schemas: universalSchemas,
    security: ["token"],
    error: problem,
    commonErrors: COMMON,
    statusOf,
  },
  {
    operations: toTable({
      ...agentOperations,
      ...environmentOperations,
      ...sessionTables.sessionOperations,
      ...sessionTables.eventOperations,
      ...sessionTables.threadOperations,
      ...sessionTables.resourceOperations,
      ...fileOperations,
      ...skillOperations,
      ...vaultOperations,
      ...credentialOperations,
      ...workOperations,
      ...callbackOperations,
    }),
    schemas: {
      AnthropicError: agents.ErrorEnvelope,
      AnthropicAgent: agents.Agent,
      AnthropicSessionAgent: agents.SessionAgent,
      AnthropicCreateAgent: CreateAgent,
      AnthropicUpdateAgent: UpdateAgent,
      AnthropicTool: ToolParams,
      AnthropicEnvironment: agents.Environment,
      AnthropicCreateEnvironment: CreateEnvironment,
      AnthropicUpdateEnvironment: UpdateEnvironment,
      AnthropicSession: sessions.Session,
      AnthropicCreateSession: CreateSession,
      AnthropicUpdateSession: UpdateSession,
      AnthropicAddFile: FileResourceParams,
      AnthropicSessionResource: sessions.SessionResource,
      AnthropicThread: sessions.Thread,
      AnthropicTextBlock: TextBlock,
      AnthropicMessageBlock: MessageBlock,
      AnthropicResultBlock: ResultBlock,
      AnthropicSendEvents: SendEvents,
      AnthropicSentEvent: SentEvent,
      AnthropicSessionError: SessionError,
      AnthropicSessionEvent: SessionEvent,
      AnthropicStreamEvent: StreamEvent,
      AnthropicFile: documents.File,
      AnthropicSkill: documents.Skill,
      AnthropicSkillVersion: documents.SkillVersion,
      AnthropicVault: documents.Vault,
      AnthropicCredential: documents.Credential,
      AnthropicCreateCredential: CreateCredential,
      AnthropicUpdateCredential: UpdateCredential,
      AnthropicCredentialValidation: documents.CredentialValidation,
      AnthropicWork: agents.Work,
    },
    security: ["token", "apiKey"],
    error: { mime: "application/json", schema: "AnthropicError" },
    commonErrors: [...COMMON, "invalid_request", "rate_limited"],
    statusOf: (code) => toEnvelopeStatus(statusOf(code)),
  },
  {
    operations: toTable(agUiOperations),
    schemas: { AgUiRunInput: RunInput, AgUiFrame, AgUiThread, AgUiInterrupt: Interrupt, AgUiCapabilities },
    security: ["token"],
    error: { mime: "application/json", schema: "Problem" },
    commonErrors: COMMON,
    statusOf,
  },
  {
    operations: toTable({ ...runOperations, ...resultOperations, ...historyOperations }),
    schemas: {
      NdjsonDispatch: Dispatch,
      NdjsonLine,
      NdjsonTurn: ndjson.NdjsonTurn,
      NdjsonFrame: ndjson.NdjsonFrame,
    },
    security: ["token"],
    error: problem,
    commonErrors: COMMON,
    statusOf,
  },
];

/** The types of queries and bodies matter to handlers alone. */
function toTable(table: Readonly<Record<string, object>>): Readonly<Record<string, Operation>> {
  return table as Readonly<Record<string, Operation>>;
}
