"""What several stories share: sessions of an agent, processes that are killed, systems that keep a book."""
