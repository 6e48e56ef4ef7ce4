import { known, type Json, type ReadableRequest, type RequestFacts, asName, type Wire } from "../wire.ts";
import { anthropic } from "./anthropic.ts";
import { gemini } from "./gemini.ts";

/** Anthropic's models in Amazon Bedrock: the model is in the path, and a stream is one of AWS. */
export const bedrock: Wire = {
  id: "bedrock",
  readRequest: (request) => withModel(request, /\/model\/([^/]+)\//),
  readAnswer: anthropic.readAnswer,
  toError: toAwsError,
};

/** Anthropic's models in Google's Vertex AI: the model is in the path, and errors are Google's. */
export const vertex: Wire = {
  id: "vertex",
  readRequest: (request) => withModel(request, /\/models\/([^/:]+):/),
  readAnswer: anthropic.readAnswer,
  toError: gemini.toError,
};

function withModel(request: ReadableRequest, place: RegExp): RequestFacts {
  const found = place.exec(request.path)?.[1];
  const model = found === undefined ? undefined : asName(decode(found));
  return { ...anthropic.readRequest(request), ...known({ model }) };
}

function decode(text: string): string {
  return text.replaceAll("%3A", ":").replaceAll("%2F", "/");
}

const TYPES: Readonly<Record<number, string>> = {
  400: "ValidationException",
  401: "UnrecognizedClientException",
  403: "AccessDeniedException",
  404: "ResourceNotFoundException",
  413: "ValidationException",
  429: "ThrottlingException",
  503: "ServiceUnavailableException",
};

function toAwsError(status: number, message: string): Json {
  return { __type: TYPES[status] ?? "InternalServerException", message };
}
