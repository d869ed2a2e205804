"""Language models: a client that can be relied on, and the reading of what they answer.

The client's names can also be imported from here, for modules written before it was a folder.
"""

from lemmata.llm.chat import Answer, Budget, Chat, Preview, Request, Spent

__all__ = ["Answer", "Budget", "Chat", "Preview", "Request", "Spent"]
